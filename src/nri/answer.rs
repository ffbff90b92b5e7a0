//! Outcomes to NRI messages: set is sent, unset stays as it is.

use super::proto;
use crate::decision::{CpusetUpdate, Delivery, Edit, Mount};
use crate::ledger::RECORD_ANNOTATION;
use crate::model::{ContainerId, CpuSet, DeviceNode, MemoryMode, MemoryPolicy, NodeSet, Rejection};
use protobuf::{EnumOrUnknown, MessageField};

/// What a refused container's user reads after the reason: the kubelet tries again here, with the same
/// devices, and nothing else moves the pod.
const RETRY_HINT: &str = "retried on this node; delete the pod to have it scheduled again";

/// A refusal of something the kubelet will try again.
pub(super) fn refusal(rejection: &Rejection) -> ttrpc::Error {
    status(format!("{rejection} ({RETRY_HINT})"))
}

/// An error status that the runtime passes on as text. Not DEADLINE_EXCEEDED, which closes the plugin,
/// and not UNIMPLEMENTED, which makes the runtime ask again another way.
pub(super) fn status(text: impl ToString) -> ttrpc::Error {
    ttrpc::Error::RpcStatus(ttrpc::get_status(ttrpc::Code::FAILED_PRECONDITION, text))
}

/// A request that lacks what it must have.
pub(super) fn malformed(text: &str) -> ttrpc::Error {
    ttrpc::Error::RpcStatus(ttrpc::get_status(ttrpc::Code::INVALID_ARGUMENT, text))
}

/// The changes to the container about to be made.
pub(super) fn adjustment(edit: Edit) -> proto::ContainerAdjustment {
    let native = edit.delivery == Some(Delivery::Native);
    let mut resources =
        resources(edit.cpus.as_ref(), edit.mems.as_ref(), edit.drop_quota).unwrap_or_default();
    // The rule that allowed a node stays when the node goes.
    resources.devices.extend(edit.remove_devices.iter().map(|node| device_rule(node, false)));
    resources.devices.extend(edit.devices.iter().map(|node| device_rule(node, true)));
    let gone = edit.remove_devices.iter().map(|node| removed(&node.path));
    let gone = gone.map(|path| proto::LinuxDevice { path, ..Default::default() });
    let linux = proto::LinuxContainerAdjustment {
        devices: gone.chain(edit.devices.iter().map(device)).collect(),
        resources: Some(resources).filter(|resources| resources != &Default::default()).into(),
        // What a launcher sets is none of the runtime's business.
        memory_policy: edit.memory_policy.as_ref().filter(|_| native).map(memory_policy).into(),
        ..Default::default()
    };
    let record = edit.record.map(|record| (RECORD_ANNOTATION.to_owned(), record));
    let gone = edit.remove_mounts.iter().map(|destination| removed(destination));
    let gone = gone.map(|destination| proto::Mount { destination, ..Default::default() });
    let cdi = |name| proto::CDIDevice { name, ..Default::default() };
    let variable = |(key, value)| proto::KeyValue { key, value, ..Default::default() };
    proto::ContainerAdjustment {
        annotations: record.into_iter().chain(edit.annotations).collect(),
        mounts: gone.chain(edit.mounts.into_iter().map(mount)).collect(),
        cdi_devices: edit.cdi_devices.into_iter().map(cdi).collect(),
        env: edit.env.into_iter().map(variable).collect(),
        args: edit.args.unwrap_or_default(),
        linux: Some(linux).filter(|linux| linux != &Default::default()).into(),
        ..Default::default()
    }
}

/// NRI's mark of what is to be taken away.
fn removed(name: &str) -> String {
    format!("-{name}")
}

fn mount(mount: Mount) -> proto::Mount {
    let Mount { source, destination, kind, options } = mount;
    proto::Mount { source, destination, type_: kind, options, ..Default::default() }
}

fn device(node: &DeviceNode) -> proto::LinuxDevice {
    let DeviceNode { path, major, minor } = node.clone();
    proto::LinuxDevice { path, type_: "c".into(), major, minor, ..Default::default() }
}

fn device_rule(node: &DeviceNode, allow: bool) -> proto::LinuxDeviceCgroup {
    let number = |value| MessageField::some(proto::OptionalInt64 { value, ..Default::default() });
    proto::LinuxDeviceCgroup {
        allow,
        type_: "c".into(),
        major: number(node.major),
        minor: number(node.minor),
        access: "rwm".into(),
        ..Default::default()
    }
}

/// The changes to a running container that somebody wants to change: an update of itself replaces what
/// was wanted. Only resources can change now.
pub(super) fn override_update(id: &ContainerId, edit: &Edit) -> Option<proto::ContainerUpdate> {
    let resources = resources(edit.cpus.as_ref(), edit.mems.as_ref(), edit.drop_quota)?;
    Some(update_of(id, resources, false))
}

/// New cpusets of another container. It may have exited meanwhile, which must not fail the request.
pub(super) fn update(update: &CpusetUpdate) -> Option<proto::ContainerUpdate> {
    let resources = resources(Some(&update.cpus), update.mems.as_ref(), false)?;
    Some(update_of(&update.id, resources, true))
}

fn update_of(id: &ContainerId, resources: proto::LinuxResources, may_fail: bool) -> proto::ContainerUpdate {
    let linux =
        proto::LinuxContainerUpdate { resources: MessageField::some(resources), ..Default::default() };
    proto::ContainerUpdate {
        container_id: id.to_string(),
        linux: MessageField::some(linux),
        ignore_failure: may_fail,
        ..Default::default()
    }
}

/// `None` where nothing is set. Empty sets are not sent: the runtime reads them as "leave it".
fn resources(
    cpus: Option<&CpuSet>,
    mems: Option<&NodeSet>,
    drop_quota: bool,
) -> Option<proto::LinuxResources> {
    // No limit is a quota of −1; the period stays what it is.
    let no_quota = drop_quota.then(|| proto::OptionalInt64 { value: -1, ..Default::default() });
    let cpu = proto::LinuxCPU {
        cpus: cpus.map(ToString::to_string).unwrap_or_default(),
        mems: mems.map(ToString::to_string).unwrap_or_default(),
        quota: no_quota.into(),
        ..Default::default()
    };
    let any = cpu != proto::LinuxCPU::default();
    any.then(|| proto::LinuxResources { cpu: MessageField::some(cpu), ..Default::default() })
}

fn memory_policy(policy: &MemoryPolicy) -> proto::LinuxMemoryPolicy {
    let mode = match policy.mode {
        MemoryMode::Bind => proto::MpolMode::MPOL_BIND,
        MemoryMode::Preferred => proto::MpolMode::MPOL_PREFERRED,
        MemoryMode::PreferredMany => proto::MpolMode::MPOL_PREFERRED_MANY,
        MemoryMode::Interleave => proto::MpolMode::MPOL_INTERLEAVE,
        MemoryMode::WeightedInterleave => proto::MpolMode::MPOL_WEIGHTED_INTERLEAVE,
        MemoryMode::Local => proto::MpolMode::MPOL_LOCAL,
    };
    // The nodes are meant as they are, also after the task has entered its cpuset; without nodes the kernel takes no
    // such flag.
    let fixed = (!policy.nodes.is_empty()).then(|| EnumOrUnknown::new(proto::MpolFlag::MPOL_F_STATIC_NODES));
    proto::LinuxMemoryPolicy {
        mode: EnumOrUnknown::new(mode),
        nodes: policy.nodes.to_string(),
        flags: fixed.into_iter().collect(),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Reason;

    #[test]
    fn nothing_set_is_nothing_sent() {
        assert_eq!(adjustment(Edit::default()), proto::ContainerAdjustment::default());
        assert_eq!(override_update(&"c".into(), &Edit::default()), None);
        let empty =
            CpusetUpdate { id: "c".into(), cgroups_path: "/c".into(), cpus: CpuSet::new(), mems: None };
        assert_eq!(update(&empty), None);
    }

    #[test]
    fn an_edit_becomes_an_adjustment() {
        let edit = Edit {
            cpus: Some("4-7".parse().unwrap()),
            mems: Some("1".parse().unwrap()),
            drop_quota: true,
            env: vec![("NVIDIA_VISIBLE_DEVICES".into(), "GPU-1".into())],
            record: Some("{}".into()),
            memory_policy: Some(MemoryPolicy { mode: MemoryMode::Bind, nodes: "1".parse().unwrap() }),
            delivery: Some(Delivery::Native),
            ..Edit::default()
        };

        let sent = adjustment(edit);

        let linux = &sent.linux;
        let cpu = &linux.resources.cpu;
        assert_eq!((cpu.cpus.as_str(), cpu.mems.as_str(), cpu.quota.value), ("4-7", "1", -1));
        assert!(cpu.period.is_none() && cpu.shares.is_none());
        assert_eq!(linux.memory_policy.mode, EnumOrUnknown::new(proto::MpolMode::MPOL_BIND));
        assert_eq!(linux.memory_policy.nodes, "1");
        assert_eq!(linux.memory_policy.flags, [EnumOrUnknown::new(proto::MpolFlag::MPOL_F_STATIC_NODES)]);
        assert_eq!(sent.annotations["allocation.maitred.io"], "{}");
        assert_eq!(
            (sent.env[0].key.as_str(), sent.env[0].value.as_str()),
            ("NVIDIA_VISIBLE_DEVICES", "GPU-1")
        );
    }

    /// As NRI marks it: a dash before what goes, and a deny rule, since the rule that allowed it stays.
    #[test]
    fn what_is_swapped_goes_and_comes() {
        let node = |path: &str, minor| DeviceNode { path: path.into(), major: 195, minor };
        let mount = Mount {
            source: "/dev/null".into(),
            destination: "/var/run/nvidia-container-devices/GPU-2".into(),
            kind: "bind".into(),
            options: vec!["ro".into()],
        };
        let sent = adjustment(Edit {
            annotations: vec![("cdi.k8s.io/x".into(), "nvidia.com/gpu=2".into())],
            remove_mounts: vec!["/var/run/nvidia-container-devices/GPU-1".into()],
            mounts: vec![mount],
            remove_devices: vec![node("/dev/nvidia1", 1)],
            devices: vec![node("/dev/nvidia2", 2)],
            cdi_devices: vec!["nvidia.com/gpu=2".into()],
            args: Some(vec!["/launcher".into(), "app".into()]),
            ..Edit::default()
        });
        let mounts: Vec<&str> = sent.mounts.iter().map(|mount| mount.destination.as_str()).collect();
        assert_eq!(
            mounts,
            ["-/var/run/nvidia-container-devices/GPU-1", "/var/run/nvidia-container-devices/GPU-2"]
        );
        assert_eq!((sent.mounts[1].type_.as_str(), sent.mounts[1].options[0].as_str()), ("bind", "ro"));
        let nodes: Vec<&str> = sent.linux.devices.iter().map(|node| node.path.as_str()).collect();
        assert_eq!(nodes, ["-/dev/nvidia1", "/dev/nvidia2"]);
        let rules = &sent.linux.resources.devices;
        let rule = |at: usize| (rules[at].allow, rules[at].major.value, rules[at].minor.value);
        assert_eq!((rule(0), rule(1)), ((false, 195, 1), (true, 195, 2)));
        assert!(sent.linux.resources.cpu.is_none());
        assert_eq!(sent.cdi_devices[0].name, "nvidia.com/gpu=2");
        assert_eq!(sent.annotations["cdi.k8s.io/x"], "nvidia.com/gpu=2");
        assert_eq!(sent.args, ["/launcher", "app"]);
    }

    #[test]
    fn a_launcher_is_mounted_and_put_in_front_and_the_runtime_sets_no_policy() {
        let launcher = Mount {
            source: "/run/maitred/launcher".into(),
            destination: "/dev/.maitred-launcher".into(),
            kind: "bind".into(),
            options: vec!["bind".into(), "ro".into()],
        };
        let edit = Edit {
            memory_policy: Some(MemoryPolicy { mode: MemoryMode::Local, nodes: NodeSet::new() }),
            delivery: Some(Delivery::Launcher),
            mounts: vec![launcher],
            args: Some(vec!["/dev/.maitred-launcher".into(), "local".into(), "--".into(), "true".into()]),
            ..Edit::default()
        };

        let sent = adjustment(edit);

        assert!(sent.linux.is_none());
        let mount = &sent.mounts[0];
        assert_eq!((mount.type_.as_str(), mount.source.as_str()), ("bind", "/run/maitred/launcher"));
        assert_eq!(
            (mount.destination.as_str(), &*mount.options),
            ("/dev/.maitred-launcher", &["bind".into(), "ro".into()][..] as &[String])
        );
        assert_eq!(sent.args, ["/dev/.maitred-launcher", "local", "--", "true"]);
    }

    #[test]
    fn without_nodes_there_is_no_flag() {
        let local = memory_policy(&MemoryPolicy { mode: MemoryMode::Local, nodes: NodeSet::new() });
        assert_eq!((local.mode.value(), local.nodes.as_str(), local.flags.len()), (4, "", 0));
    }

    #[test]
    fn only_mems_leaves_the_quota_alone() {
        let sent = adjustment(Edit { mems: Some("0".parse().unwrap()), ..Edit::default() });

        let cpu = &sent.linux.resources.cpu;
        assert_eq!((cpu.cpus.as_str(), cpu.mems.as_str()), ("", "0"));
        assert!(cpu.quota.is_none() && sent.linux.memory_policy.is_none());
    }

    #[test]
    fn others_updates_may_fail_and_the_containers_own_may_not() {
        let other = CpusetUpdate {
            id: "other".into(),
            cgroups_path: "/o".into(),
            cpus: "0".parse().unwrap(),
            mems: None,
        };
        let other = update(&other).unwrap();
        assert_eq!((other.container_id.as_str(), other.ignore_failure), ("other", true));
        assert_eq!(other.linux.resources.cpu.mems, "");

        let own = Edit { cpus: Some("1".parse().unwrap()), ..Edit::default() };
        let own = override_update(&"own".into(), &own).unwrap();
        assert_eq!((own.container_id.as_str(), own.ignore_failure), ("own", false));
    }

    #[test]
    fn a_refusal_says_what_happens_next() {
        let text = "no single NUMA node has 16 CPUs";
        let rejection = Rejection::of_container(Reason::TopologyAffinity, "vllm".into(), text);

        let ttrpc::Error::RpcStatus(status) = refusal(&rejection) else { panic!("no status") };

        assert_eq!(
            status.message(),
            "TopologyAffinityError: container vllm: no single NUMA node has 16 CPUs \
             (retried on this node; delete the pod to have it scheduled again)"
        );
        assert_eq!(status.code(), ttrpc::Code::FAILED_PRECONDITION);
    }
}
