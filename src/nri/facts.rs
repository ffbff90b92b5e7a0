//! NRI messages to facts. Strings move, nothing of a message is kept.

use super::proto;
use crate::model::{
    ContainerFacts, ContainerId, ContainerName, ContainerState, DeviceNode, HugepageHints, MountFacts,
    PodFacts, PodUid, PolicyCalls, Resources, SeccompRule,
};
use protobuf::MessageField;

/// The type of a block device's node: a volume, whose numbers mean something else than a character device's.
const BLOCK: &str = "b";

/// A sandbox.
#[must_use]
pub fn pod(pod: proto::PodSandbox) -> PodFacts {
    let linux = pod.linux.into_option().unwrap_or_default();
    PodFacts {
        id: pod.id,
        uid: PodUid::new(pod.uid),
        name: pod.name,
        namespace: pod.namespace,
        annotations: pod.annotations.into_iter().collect(),
        runtime_handler: pod.runtime_handler,
        cgroup_parent: linux.cgroup_parent,
        cgroups_path: linux.cgroups_path,
        resources: linux.pod_resources.into_option().map(resources),
    }
}

/// A container.
#[must_use]
pub fn container(container: proto::Container) -> ContainerFacts {
    let linux = container.linux.into_option().unwrap_or_default();
    ContainerFacts {
        id: ContainerId::new(container.id),
        sandbox: container.pod_sandbox_id,
        name: ContainerName::new(container.name),
        state: state(container.state.enum_value_or_default()),
        annotations: container.annotations.into_iter().collect(),
        args: container.args,
        env: container.env,
        mounts: container.mounts.into_iter().map(mount).collect(),
        devices: linux.devices.into_iter().filter(|device| device.type_ != BLOCK).map(device).collect(),
        cdi_devices: container.cdi_devices.into_iter().map(|device| device.name).collect(),
        cgroups_path: linux.cgroups_path,
        oom_score_adj: linux.oom_score_adj.as_ref().map(|score| score.value),
        policy_calls: policy_calls(linux.seccomp_policy.as_ref(), linux.seccomp_profile.as_ref()),
        hugepages: HugepageHints::default(),
        resources: linux.resources.into_option().map(resources).unwrap_or_default(),
        pid: Some(container.pid).filter(|pid| *pid != 0),
    }
}

/// The resources of either.
#[must_use]
pub fn resources(resources: proto::LinuxResources) -> Resources {
    let cpu = resources.cpu.into_option().unwrap_or_default();
    let memory = resources.memory.into_option().unwrap_or_default();
    Resources {
        every_device: resources.devices.iter().any(allows_everything),
        shares: cpu.shares.as_ref().map(|shares| shares.value),
        quota: cpu.quota.as_ref().map(|quota| quota.value),
        period: cpu.period.as_ref().map(|period| period.value),
        cpus: cpu.cpus,
        mems: cpu.mems,
        memory_limit: memory.limit.as_ref().map(|limit| limit.value),
        hugepage_limits: resources.hugepage_limits.into_iter().map(|l| (l.page_size, l.limit)).collect(),
    }
}

/// The filter itself where the runtime shows it; containerd names only the kind of profile. The engine's default
/// one depends on CAP_SYS_NICE, which NRI does not show.
fn policy_calls(
    filter: Option<&proto::LinuxSeccomp>,
    profile: Option<&proto::SecurityProfile>,
) -> PolicyCalls {
    use proto::security_profile::ProfileType;
    if let Some(filter) = filter {
        let rules = filter.syscalls.iter().map(|rule| SeccompRule {
            action: &rule.action,
            conditional: !rule.args.is_empty(),
            names: rule.names.iter().map(String::as_str).collect(),
        });
        return PolicyCalls::by_filter(&filter.default_action, rules);
    }
    match profile.map(|profile| profile.profile_type.enum_value()) {
        Some(Ok(ProfileType::RUNTIME_DEFAULT)) => PolicyCalls::NeedSysNice,
        Some(Ok(ProfileType::UNCONFINED)) => PolicyCalls::Allowed,
        _ => PolicyCalls::Unknown,
    }
}

/// The one device rule of a privileged container.
fn allows_everything(rule: &proto::LinuxDeviceCgroup) -> bool {
    let any = |number: &MessageField<proto::OptionalInt64>| number.as_ref().is_none_or(|it| it.value < 0);
    let any_kind = matches!(rule.type_.as_str(), "" | "a");
    rule.allow && any_kind && any(&rule.major) && any(&rule.minor) && rule.access.contains('w')
}

fn state(state: proto::ContainerState) -> ContainerState {
    match state {
        proto::ContainerState::CONTAINER_UNKNOWN => ContainerState::Unknown,
        proto::ContainerState::CONTAINER_CREATED => ContainerState::Created,
        proto::ContainerState::CONTAINER_PAUSED => ContainerState::Paused,
        proto::ContainerState::CONTAINER_RUNNING => ContainerState::Running,
        proto::ContainerState::CONTAINER_STOPPED => ContainerState::Stopped,
    }
}

fn mount(mount: proto::Mount) -> MountFacts {
    MountFacts { source: mount.source, destination: mount.destination }
}

fn device(device: proto::LinuxDevice) -> DeviceNode {
    DeviceNode { path: device.path, major: device.major, minor: device.minor }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protobuf::{EnumOrUnknown, Message};

    #[test]
    fn absent_is_not_zero() {
        let facts = container(proto::Container::default());

        assert_eq!(facts.resources, Resources::default());
        assert_eq!((facts.pid, facts.oom_score_adj), (None, None));
        assert_eq!(pod(proto::PodSandbox::default()).resources, None);
    }

    #[test]
    fn a_set_zero_is_not_absent() {
        let cpu = proto::LinuxCPU {
            shares: MessageField::some(proto::OptionalUInt64::default()),
            quota: MessageField::some(proto::OptionalInt64 { value: -1, ..Default::default() }),
            cpus: "0-3".into(),
            ..Default::default()
        };
        let facts = resources(proto::LinuxResources { cpu: MessageField::some(cpu), ..Default::default() });

        assert_eq!((facts.shares, facts.quota, facts.period), (Some(0), Some(-1), None));
        assert_eq!((facts.cpus.as_str(), facts.memory_limit), ("0-3", None));
    }

    #[test]
    fn a_privileged_container_is_one_that_may_use_every_device() {
        let rule = |allow, major: Option<i64>| proto::LinuxDeviceCgroup {
            allow,
            major: major.map(|value| proto::OptionalInt64 { value, ..Default::default() }).into(),
            access: "rwm".into(),
            ..Default::default()
        };
        let may = |rules: Vec<proto::LinuxDeviceCgroup>| {
            resources(proto::LinuxResources { devices: rules, ..Default::default() }).every_device
        };
        assert!(may(vec![rule(true, None)]));
        assert!(!may(vec![rule(false, None), rule(true, Some(195))]));
    }

    /// What newer hosts say and we do not read must not disturb: a state and a field of the future.
    #[test]
    fn the_unknown_is_skipped() {
        let mut message = proto::Container { id: "c1".into(), ..Default::default() };
        message.state = EnumOrUnknown::from_i32(77);
        let mut bytes = message.write_to_bytes().unwrap();
        bytes.extend([0xfa, 0x01, 2, b'h', b'i']); // field 31, a string
        let facts = container(proto::Container::parse_from_bytes(&bytes).unwrap());

        assert_eq!((facts.id.as_str(), facts.state), ("c1", ContainerState::Unknown));
    }

    #[test]
    fn a_block_devices_numbers_are_no_character_devices() {
        let node = |type_: &str, path: &str| proto::LinuxDevice {
            path: path.into(),
            type_: type_.into(),
            major: 195,
            ..Default::default()
        };
        let devices = vec![node("b", "/dev/volume"), node("c", "/dev/nvidia0"), node("", "/dev/untold")];
        let linux = proto::LinuxContainer { devices, ..Default::default() };
        let facts = container(proto::Container { linux: Some(linux).into(), ..Default::default() });
        let paths: Vec<&str> = facts.devices.iter().map(|node| node.path.as_str()).collect();
        assert_eq!(paths, ["/dev/nvidia0", "/dev/untold"]);
    }
}
