use super::super::testing::{settings, whole};
use super::*;
use crate::model::{Bytes, HugepageSize, MemoryBlock, MountFacts};

const EVERYTHING: Features = Features {
    memory_policy: true,
    preferred_many: true,
    weighted_interleave: true,
    inherits_policy: true,
    args: true,
    add_cdi: false,
    remove_devices: false,
    rivals: false,
    rewrites_devices: false,
};
const LAUNCHES: Features = Features { memory_policy: false, inherits_policy: false, ..EVERYTHING };

fn node(features: Features) -> Settings {
    Settings { features, launcher: Some("/run/maitred/launcher".into()), ..settings() }
}

fn tenant(policy_calls: PolicyCalls) -> ContainerFacts {
    let args = vec!["serve".into(), "--port".into()];
    ContainerFacts { args, policy_calls, ..whole("a", 2) }
}

fn seat(mems: &str) -> Placement {
    Placement { mems: mems.parse().unwrap(), ..Placement::default() }
}

fn done(container: &ContainerFacts, settings: &Settings) -> Result<(Edit, String), String> {
    let mut edit = Edit::default();
    let said = deliver(&mut edit, MemoryMode::Bind, container, &seat("1"), settings)?;
    Ok((edit, said))
}

fn way(container: &ContainerFacts, settings: &Settings) -> Delivery {
    done(container, settings).unwrap().0.delivery.unwrap()
}

#[test]
fn a_mode_names_as_many_nodes_as_it_takes() {
    use MemoryMode::*;
    let old = Features::default();
    for (mode, mems, features, expected) in [
        (Bind, "0-1", old, "bind:0-1"),
        (Local, "0-1", old, "local"),
        (Preferred, "1", EVERYTHING, "preferred:1"),
        (Preferred, "0-1", EVERYTHING, "preferred-many:0-1"),
        (Preferred, "0-1", old, "preferred:0"),
        (PreferredMany, "0-1", EVERYTHING, "preferred-many:0-1"),
        (PreferredMany, "2-3", old, "preferred:2"),
        (Interleave, "0-1", EVERYTHING, "interleave:0-1"),
        (WeightedInterleave, "0-1", EVERYTHING, "weighted-interleave:0-1"),
        (WeightedInterleave, "0-1", old, "interleave:0-1"),
    ] {
        assert_eq!(memory_policy(mode, &mems.parse().unwrap(), &features).to_string(), expected, "{mode}");
    }
}

#[test]
fn auto_takes_the_best_way_there_is() {
    let allowed = tenant(PolicyCalls::Allowed);
    let inherits = Features { memory_policy: false, ..EVERYTHING };
    for (features, expected) in [
        (EVERYTHING, Delivery::Native),
        (inherits, Delivery::Inherited),
        (LAUNCHES, Delivery::Launcher),
        (Features::default(), Delivery::Cpuset),
    ] {
        assert_eq!(way(&allowed, &node(features)), expected, "{features:?}");
    }
}

#[test]
fn auto_launches_only_what_is_surely_let() {
    for (calls, expected) in [
        (PolicyCalls::Allowed, Delivery::Launcher),
        (PolicyCalls::NeedSysNice, Delivery::Cpuset),
        (PolicyCalls::Unknown, Delivery::Cpuset),
        (PolicyCalls::Denied, Delivery::Cpuset),
    ] {
        assert_eq!(way(&tenant(calls), &node(LAUNCHES)), expected, "{calls:?}");
    }
    let (edit, said) = done(&tenant(PolicyCalls::Denied), &node(LAUNCHES)).unwrap();
    assert_eq!((edit.memory_policy, edit.args, edit.mounts.len()), (None, None, 0));
    assert!(said.starts_with("cpuset.mems 1 alone (the runtime sets no memory policy"), "{said}");
    assert!(said.ends_with("forbids set_mempolicy to a launcher (CAP_SYS_NICE would allow it))"), "{said}");
}

#[test]
fn a_chosen_way_is_gone_or_refused_and_never_left_out() {
    let chosen = |delivery, features| Settings { delivery: Some(delivery), ..node(features) };
    let allowed = tenant(PolicyCalls::NeedSysNice);
    for delivery in [Delivery::Native, Delivery::Inherited, Delivery::Launcher, Delivery::Cpuset] {
        assert_eq!(way(&allowed, &chosen(delivery, EVERYTHING)), delivery);
        assert_eq!(undeliverable(&chosen(delivery, EVERYTHING)), None);
    }
    let nothing = Features::default();
    for (delivery, why) in [
        (
            Delivery::Native,
            "memory.delivery = \"native\" cannot be followed: the runtime sets no memory policy",
        ),
        (
            Delivery::Inherited,
            "memory.delivery = \"inherited\" cannot be followed: only behind the runtime wrapper",
        ),
        (
            Delivery::Launcher,
            "memory.delivery = \"launcher\" cannot be followed: the command line cannot be changed",
        ),
    ] {
        let error = done(&allowed, &chosen(delivery, nothing)).unwrap_err();
        assert!(error.starts_with(why), "{error}");
        assert_eq!(undeliverable(&chosen(delivery, nothing)), Some(error));
        let no_policy = Settings { memory_policy: None, ..chosen(delivery, nothing) };
        assert_eq!(undeliverable(&no_policy), None, "nothing is to be delivered");
    }
    assert_eq!(way(&allowed, &chosen(Delivery::Cpuset, nothing)), Delivery::Cpuset);
}

#[test]
fn a_launcher_takes_its_place_a_command_line_and_leave() {
    let chosen = || Settings { delivery: Some(Delivery::Launcher), ..node(EVERYTHING) };
    let nowhere = Settings { launcher: None, ..chosen() };
    let untold = ContainerFacts { args: Vec::new(), ..tenant(PolicyCalls::Allowed) };
    let host_dev = MountFacts { source: "/dev".into(), destination: "/dev".into() };
    let privileged = ContainerFacts { mounts: vec![host_dev], ..tenant(PolicyCalls::Allowed) };
    let tmpfs = MountFacts { source: "tmpfs".into(), destination: "/dev".into() };
    let ordinary = ContainerFacts { mounts: vec![tmpfs], ..tenant(PolicyCalls::Allowed) };
    for (container, settings, why) in [
        (&ordinary, nowhere, "the launcher could not be put on the host"),
        (&untold, chosen(), "command line is not told"),
        (&privileged, chosen(), "/dev is a directory of the host"),
        (&tenant(PolicyCalls::Denied), chosen(), "forbids set_mempolicy"),
    ] {
        let error = done(container, &settings).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    assert_eq!(way(&ordinary, &chosen()), Delivery::Launcher);
}

#[test]
fn the_launcher_stands_before_the_command_and_proves_when_asked() {
    let promise = |bytes, size| MemoryBlock {
        nodes: "1".parse().unwrap(),
        kind: MemoryKind::Hugepages(size),
        bytes: Bytes(bytes),
    };
    let memory = vec![promise(32 << 20, HugepageSize::MIB2), promise(2 << 30, HugepageSize::GIB1)];
    let placement = Placement { memory, ..seat("1") };
    let words = |prove_hugepages, features| {
        let settings = Settings { prove_hugepages, ..node(features) };
        let mut edit = Edit::default();
        let tenant = tenant(PolicyCalls::Allowed);
        let said = deliver(&mut edit, MemoryMode::Bind, &tenant, &placement, &settings).unwrap();
        (edit.args.unwrap_or_default().join(" "), edit.mounts, said)
    };
    let (args, mounts, said) = words(false, LAUNCHES);
    assert_eq!(args, "/dev/.maitred-launcher bind:1 -- serve --port");
    assert_eq!(said, "bind:1 launcher");
    assert_eq!(
        (mounts[0].source.as_str(), mounts[0].destination.as_str()),
        ("/run/maitred/launcher", LAUNCHER)
    );
    assert!(mounts[0].options.contains(&"ro".to_owned()));
    let (args, ..) = words(true, LAUNCHES);
    assert_eq!(args, "/dev/.maitred-launcher bind:1 prove:2048:16:1 prove:1048576:2:1 -- serve --port");
    // Asked for a proof, the launcher goes before the runtime; where it cannot, that is said.
    assert!(words(true, EVERYTHING).0.contains("prove:"));
    let (args, _, said) = words(true, Features { args: false, ..EVERYTHING });
    assert_eq!(args, "");
    assert_eq!(
        said,
        "bind:1 native (huge pages not proven: the command line cannot be changed (NRI from 0.10 can))"
    );
}

#[test]
fn an_older_mode_in_place_of_the_wish_is_said() {
    let mut edit = Edit::default();
    let settings = node(Features { memory_policy: true, ..Features::default() });
    let wish = MemoryMode::WeightedInterleave;
    let said = deliver(&mut edit, wish, &tenant(PolicyCalls::Unknown), &seat("0-1"), &settings).unwrap();
    assert_eq!(said, "interleave:0-1 native (weighted-interleave is unknown to the kernel or the runtime)");
    let said =
        deliver(&mut edit, MemoryMode::Preferred, &tenant(PolicyCalls::Unknown), &seat("0-1"), &settings);
    assert_eq!(said.unwrap(), "preferred:0 native");
}
