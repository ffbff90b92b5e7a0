//! What `--help` says of a verb below its options: examples, files, environment, exit status. The man pages make
//! their sections of the same texts (`tests/suite/man.rs`): a heading ends with a colon, what is explained is
//! indented by two, the explanation by six.

/// Of `maitred` itself.
pub const MAITRED: &str = "\
Examples:
  maitred topology
      What maitred sees of this machine
  maitred plan pod.yaml
      Where a pod would sit on it, or why nowhere
  maitred status
      Who holds what on this node
  maitred explain vllm-0
      Why a pod was placed or refused
  maitred verify
      Whether what runs is as it was placed
  maitred doctor
      What silently keeps containers from being pinned

Files:
  /etc/maitred/config.toml
      The configuration; without it everything is at its default
  /run/maitred
      Who sits where, and the switch of `maitred off`

Environment:
  MAITRED_LOG
      What is logged, before [log] level: a level, or a filter such as info,maitred::nri=debug
  NO_COLOR
      No colours on a terminal where it is set to anything

Exit status:
  0
      All is well
  1
      It works, and the answer is no: a rejected pod, a misaligned container
  2
      Bad usage or input
  3
      The system failed
";

/// Of `maitred nri`.
pub const NRI: &str = "\
Examples:
  maitred nri
      Connects to containerd, and again whenever it comes back
  maitred nri --config ./audit.toml 2>&1 | jq .
      Tries another configuration
  ln -s /usr/bin/maitred /opt/nri/plugins/90-maitred
      Lets containerd start it

Files:
  /etc/maitred/config.toml
      The configuration
  /var/run/nri/nri.sock
      Where containerd listens
  /var/lib/kubelet
      The kubelet's podresources socket, device checkpoint and CPU state: who was given what
  /run/maitred
      Who sits where, and the switch of `maitred off`

Environment:
  MAITRED_LOG
      What is logged, before [log] level: a level, or a filter such as info,maitred::nri=debug
  NRI_PLUGIN_NAME, NRI_PLUGIN_IDX, NRI_PLUGIN_SOCKET
      Set by containerd where it starts the plugin itself

Exit status:
  0
      It was told to stop
  2
      Bad usage or configuration
  3
      The system failed
  4
      It made room for one that containerd has launched; the packaged unit does not start it again then
";

/// Of `maitred hook`.
pub const HOOK: &str = "\
Examples:
  maitred hook precreate < config.json > edited.json
      The configuration of a container with its place in it

Files:
  /etc/maitred/config.toml
      The configuration
  /run/maitred
      Who sits where, and the switch of `maitred off`
  /etc/containers/oci/hooks.d
      Where podman and CRI-O look for hooks

Environment:
  MAITRED_LOG
      What is logged, before [log] level

Exit status:
  0
      The container may start
  any other
      It does not start
";

/// Of `maitred runtime`.
pub const RUNTIME: &str = "\
Examples:
  ln -s /usr/bin/maitred /usr/bin/maitred-runtime
      A runtime that podman, Docker and containerd can be told to use
  maitred-runtime --version
      The version of the runtime behind it

Files:
  /etc/maitred/config.toml
      The configuration; [runtime] path is the runtime behind it
  /run/maitred
      Who sits where, and the switch of `maitred off`

Environment:
  MAITRED_CONFIG
      Another configuration file

Exit status:
  1
      The container does not fit, or there is no runtime
  any other
      The runtime's own
";

/// Of `maitred topology`.
pub const TOPOLOGY: &str = "\
Examples:
  maitred topology
      CPUs, nodes and their distances, memory, GPUs and NICs; ? is what nobody knows
  maitred topology -o json > gpu-7.json
      A description that `maitred plan --topology gpu-7.json` reads on another machine
  maitred topology -o svg > gpu-7.svg
      A picture
  maitred topology --sysroot ./bundle
      The machine of which ./bundle/sys and ./bundle/proc are copies

Files:
  /etc/maitred/config.toml
      The configuration, of which only [gpu] driver_root matters here
  /sys, /proc
      Where the machine is read from, with NVML for the GPUs

Environment:
  MAITRED_NVML_SECONDS
      How long NVIDIA's driver may take to answer [default: 30]; GPUs are read without it then
  NO_COLOR
      No colours on a terminal where it is set to anything

Exit status:
  0
      Printed
  2
      Bad usage or input
  3
      The machine cannot be read
";

/// Of `maitred plan`.
pub const PLAN: &str = "\
Examples:
  maitred plan vllm.yaml
      Where it would sit on this machine if nothing else ran here
  ssh gpu-7 maitred topology -o json | maitred plan vllm.yaml --topology - --fill
      How many of it fit on another machine, on which node, and what runs out first
  maitred plan chat.yaml batch.yaml --topology gpu-7.json --replicas
      All that two manifests ask for, in that order, as if it came to one node
  maitred plan vllm.yaml --set policy.topology=restricted --set cpu.reserved=0-3
      What if the configuration were another
  kubectl get pods -A -o yaml | maitred plan - --topology gpu-7.json
      Whether all that a cluster runs would fit on that one node, in that order
  maitred plan full-node.yaml --topology h100-server.json -o svg > plan.svg
      A picture of who would sit where

Files:
  /etc/maitred/config.toml
      The configuration

Environment:
  MAITRED_NVML_SECONDS
      How long NVIDIA's driver may take to answer [default: 30]; GPUs are read without it then
  NO_COLOR
      No colours on a terminal where it is set to anything

Exit status:
  0
      Every pod has a place
  1
      A pod is rejected, or not one replica fits
  2
      Bad usage or input
  3
      The machine cannot be read
";

/// Of `maitred status`.
pub const STATUS: &str = "\
Examples:
  maitred status
      Node by node who holds what, and the largest pod that would fit now
  maitred status -o json | jq '.nodes[] | {id, free}'
      What is free, for a program
  maitred status -o svg > node.svg
      A picture of who sits where

Files:
  /etc/maitred/config.toml
      The configuration
  /run/maitred/allocations
      Who holds what

Environment:
  MAITRED_NVML_SECONDS
      How long NVIDIA's driver may take to answer [default: 30]; GPUs are read without it then
  NO_COLOR
      No colours on a terminal where it is set to anything

Exit status:
  0
      It is printed
  2
      Bad usage, or a configuration that cannot be used
  3
      The machine or the allocations cannot be read
";

/// Of `maitred explain`.
pub const EXPLAIN: &str = "\
Examples:
  maitred explain vllm-0
      The last word about a pod and its containers
  maitred explain inference/vllm-0/server
      One container of it
  journalctl -u maitred -o cat | maitred explain vllm-0 --log -
      What the log says, where the journal of verdicts is gone; who held what was short is in it too

Files:
  /run/maitred/verdicts
      The journal of verdicts, which a reboot empties
  /run/maitred/allocations
      What containers hold now

Environment:
  MAITRED_NVML_SECONDS
      How long NVIDIA's driver may take to answer [default: 30]; GPUs are read without it then
  NO_COLOR
      No colours on a terminal where it is set to anything

Exit status:
  0
      It was placed
  1
      The last word about it was a refusal
  2
      Bad usage, nobody of that name, or several
  3
      The machine or the allocations cannot be read
";

/// Of `maitred verify`.
pub const VERIFY: &str = "\
Examples:
  maitred verify
      Every container that has a placement
  maitred verify -v 7c1f
      One of them, process by process
  maitred verify -o json | jq '.containers[] | select(.state == \"misaligned\")'
      Those that are not as they were placed

Files:
  /run/maitred/allocations
      The placements
  /run/containerd/io.containerd.runtime.v2.task/k8s.io/ID/config.json, and where RKE2, k3s and CRI-O keep it
      What containers ask for that nobody placed

Environment:
  MAITRED_NVML_SECONDS
      How long NVIDIA's driver may take to answer [default: 30]; GPUs are read without it then

Exit status:
  0
      All is as it was placed
  1
      Something is not, or another may run on exclusive CPUs
  2
      Bad usage, or no such container
  3
      A cgroup or a process cannot be read
";

/// Of `maitred doctor`.
pub const DOCTOR: &str = "\
Examples:
  maitred doctor
      What keeps containers of this node from being pinned
  maitred doctor -v
      What is fine as well, and what could not be looked at
  maitred doctor --root ./bundle -o json
      Of what was gathered of another node, for a program

Environment:
  MAITRED_NVML_SECONDS
      How long NVIDIA's driver may take to answer [default: 30]; GPUs are read without it then
  NO_COLOR
      No colours on a terminal where it is set to anything

Exit status:
  0
      No error and no warning
  1
      At least one of them
  2
      Bad usage, or a directory that holds nothing of a node
  3
      The system failed
";

/// Of `maitred off`.
pub const OFF: &str = "\
Examples:
  maitred off --reason 'rejects everything since the firmware update, INC-4711'
      Until `maitred on`

Files:
  /run/maitred
      Where the switch is; a reboot turns maitred on again

Exit status:
  0
      It is off
  3
      The switch cannot be written
";

/// Of `maitred on`.
pub const ON: &str = "\
Examples:
  maitred on
      Ends `maitred off`

Files:
  /run/maitred
      Where the switch is

Exit status:
  0
      It is on
  3
      The switch cannot be removed
";

/// Of `maitred version`.
pub const VERSION: &str = "\
Examples:
  maitred version
      One line

Exit status:
  0
      Printed
";
