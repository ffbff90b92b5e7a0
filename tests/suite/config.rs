//! The configuration file as its owner meets it: the packaged default, and what is refused and how.

use maitred::config::{Config, ConfigError};
use maitred::decision::{AnnotationPool, CpuAuthority, Delivery, Features, GpuPlacement, Mode, Unrequested};
use maitred::engine::Reserve;
use maitred::model::{
    Bytes, CpuOption, CpuSet, HugepageSize, MemoryKind, MemoryMode, NodeId, ResourceName, Scope,
    TopologyPolicy, UnknownLocality,
};
use proptest::prelude::*;
use std::path::Path;

const PACKAGED: &str = include_str!("../../packaging/config.toml");

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(&format!("version = 1\n{text}"), "maitred.toml").map_err(|error| error.to_string())
}

fn refused(text: &str) -> String {
    parse(text).expect_err(text)
}

/// The packaged file with every default taken at its word; what it sets itself gives way.
fn uncommented() -> String {
    let is_key = |line: &str| line.starts_with(|c: char| c.is_ascii_lowercase()) && line.contains(" = ");
    let mut text = String::new();
    for line in PACKAGED.lines() {
        match line.strip_prefix('#') {
            Some(rest) if is_key(rest) => text.push_str(rest),
            _ if line == "mode = \"audit\"" => {}
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

#[test]
fn the_packaged_file_only_sets_audit_mode() {
    let packaged = Config::parse(PACKAGED, "packaging/config.toml").unwrap();
    assert_eq!(packaged, Config { mode: Mode::Audit, ..Config::default() });
}

#[test]
fn the_packaged_file_tells_the_defaults() {
    let text = uncommented();
    assert_eq!(Config::parse(&text, "uncommented").unwrap(), Config::default(), "{text}");
}

/// The keys of a table, as the parser lists them when it is given one it does not know.
fn keys(table: &str) -> Vec<String> {
    let message = refused(&format!("{table}\nno_such_key = 1"));
    let (_, list) = message.split_once("expected").expect(&message);
    list.split('`').skip(1).step_by(2).map(String::from).filter(|key| !table.contains(key.as_str())).collect()
}

#[test]
fn the_packaged_file_leaves_no_key_out() {
    let text = uncommented();
    let uncommented: toml::Table = text.parse().unwrap();
    let mut seen = 0;
    for name in keys("") {
        let Some(table) = uncommented[&name].as_table() else { continue };
        for key in keys(&format!("[{name}]")) {
            assert!(table.contains_key(&key), "{name}.{key} is not in packaging/config.toml");
            seen += 1;
        }
    }
    assert!(seen > 20, "only {seen} keys were looked at");
}

#[test]
fn the_packaged_file_explains_every_word() {
    for (word, _) in CpuOption::ALL {
        assert!(PACKAGED.contains(&format!("#   \"{word}\" ")), "{word}");
    }
    for word in ["restricted", "align", "interleave", "native", "cpuset", "ignore", "admit", "text"] {
        assert!(PACKAGED.contains(&format!("\"{word}\"")), "{word}");
    }
}

#[test]
fn everything_can_be_said() {
    let config = parse(
        r#"
        mode = "audit"
        authority = "maitred"
        [policy]
        topology = "restricted"
        scope = "container"
        prefer_closest_numa_nodes = true
        [cpu]
        reserved = "0-1,64-65"
        reserved_namespaces = ["monitoring"]
        options = ["full-pcpus-only", "strict-cpu-reservation"]
        drop_cfs_quota = false
        [memory]
        policy = "preferred"
        delivery = "native"
        reserved = { 0 = { memory = "4Gi", hugepages-1Gi = "2Gi" }, "1" = { memory = "512Mi" } }
        [gpu]
        annotation_pool = ["GPU-a", "GPU-b"]
        driver_root = "/run/nvidia/driver"
        [nic]
        resources = ["example.com/vf"]
        [failure]
        policy = "admit"
        deadline_ms = 500
        "#,
    )
    .unwrap();

    assert_eq!(config.policy.topology, TopologyPolicy::Restricted);
    assert_eq!(config.policy.scope, Scope::Container);
    assert_eq!(config.policy.unknown_locality, UnknownLocality::Ignore);
    assert!(config.policy.prefer_closest);
    let options = [CpuOption::FullPcpusOnly, CpuOption::StrictReservation];
    assert_eq!(config.policy.cpu.0, options.into());
    let Reserve { cpus, memory } = config.reserve();
    assert_eq!(cpus, Some("0-1,64-65".parse::<CpuSet>().unwrap()));
    assert_eq!(memory[&(NodeId(0), MemoryKind::Memory)], Bytes(4 << 30));
    assert_eq!(memory[&(NodeId(0), MemoryKind::Hugepages(HugepageSize::GIB1))], Bytes(2 << 30));
    assert_eq!(memory[&(NodeId(1), MemoryKind::Memory)], Bytes(512 << 20));
    assert!(matches!(&config.gpu.annotation_pool, AnnotationPool::Only(gpus) if gpus.len() == 2));
    assert!(config.is_nic(&ResourceName::from("example.com/vf")));
    assert!(!config.is_nic(&ResourceName::from("rdma/hca")));
    assert_eq!(config.failure.deadline.as_millis(), 500);
}

/// What the README shows as a configuration is one.
#[test]
fn the_readmes_example_is_fine() {
    let readme = include_str!("../../README.md");
    let (_, rest) = readme.split_once("```toml\n").expect("an example in the README");
    let config = Config::parse(rest.split("```").next().unwrap(), "README.md").unwrap();
    assert_eq!(config.policy.cpu.0.len(), 1);
}

#[test]
fn the_settings_are_the_files() {
    let config = parse("[memory]\ndelivery = \"cpuset\"\npolicy = \"interleave\"").unwrap();
    let reserved: CpuSet = "0-1".parse().unwrap();
    let settings = config.settings(reserved.clone(), Features::default());
    assert_eq!(settings.reserved, reserved);
    assert_eq!(
        (settings.delivery, settings.memory_policy),
        (Some(Delivery::Cpuset), Some(MemoryMode::Interleave))
    );
    let native = Config::default().settings(reserved.clone(), Features::default());
    assert_eq!((native.delivery, native.memory_policy), (None, Some(MemoryMode::Bind)));
    assert!(!native.prove_hugepages);
    let all = "[memory]\ndelivery = \"launcher\"\npolicy = \"weighted-interleave\"\nprove_hugepages = true";
    let all = parse(all).unwrap().settings(reserved, Features::default());
    assert_eq!(
        (all.delivery, all.memory_policy),
        (Some(Delivery::Launcher), Some(MemoryMode::WeightedInterleave))
    );
    assert!(all.prove_hugepages);
    assert!(native.exempt.namespaces.contains("kube-system") && native.drop_cfs_quota);
}

#[test]
fn an_absent_default_file_is_the_defaults_and_an_absent_named_one_an_error() {
    let error = Config::load(Some(Path::new("/nowhere/maitred.toml"))).unwrap_err();
    assert!(matches!(error, ConfigError::Read { .. }));
    assert!(error.to_string().starts_with("cannot read the configuration /nowhere/maitred.toml: No such"));
}

#[test]
fn a_refusal_names_file_line_key_value_and_expectation() {
    for (text, expected) in [
        (
            "[policy]\ntopology = \"strict\"",
            "maitred.toml:3: policy.topology = \"strict\": expected one of \"none\", \"best-effort\", \
             \"restricted\", \"single-numa-node\"",
        ),
        (
            "[failure]\ndeadline_ms = 5",
            "maitred.toml:3: failure.deadline_ms = 5: expected milliseconds from 10 to 60000",
        ),
        (
            "[memory]\nreserved = { x = { memory = \"1Gi\" } }",
            "maitred.toml:3: memory.reserved = x: expected the number of a NUMA node, from 0 to 1023",
        ),
        (
            "[memory.reserved.0]\nhugepages-1Gi = \"512Mi\"",
            "maitred.toml:3: memory.reserved.0.hugepages-1Gi = \"512Mi\": expected a multiple of the page size \
             1Gi",
        ),
        (
            "[memory.reserved.0]\nhugepages-2MB = \"2Mi\"",
            "maitred.toml:3: memory.reserved.0 = hugepages-2MB: expected \"memory\", or \"hugepages-2Mi\" or \
             another size",
        ),
        (
            "[gpu]\nannotation_pool = [\"0\"]",
            "maitred.toml:3: gpu.annotation_pool = [\"0\"]: expected \"none\", \"all\" or a list of UUIDs such \
             as [\"GPU-…\"]",
        ),
        ("[gpu]\ndriver_root = \"x\"", "maitred.toml:3: gpu.driver_root = \"x\": expected an absolute path"),
        (
            "[exempt]\nnamespaces = [\"a\",\n\" b\"]",
            "maitred.toml:4: exempt.namespaces = \" b\": expected a name with no spaces around it",
        ),
    ] {
        assert_eq!(refused(text), expected);
    }
}

#[test]
fn what_is_no_toml_or_no_key_or_another_type_names_its_line() {
    let unknown = refused("[policy]\ntopolgy = \"none\"");
    assert!(unknown.starts_with("maitred.toml:3: unknown field `topolgy`, expected one of `topology`"));
    let kind = refused("[failure]\ndeadline_ms = \"soon\"");
    assert!(kind.starts_with("maitred.toml:3: ") && kind.contains("deadline_ms"), "{kind}");
    let expected = "maitred.toml:3: failure.deadline_ms = \"soon\": expected a whole number, without quotes";
    assert_eq!(kind, expected);
    for (text, expected) in [
        ("mode = true", "2: mode = true: expected a text in double quotes"),
        (
            "[cpu]\ndrop_cfs_quota = \"no\"",
            "3: cpu.drop_cfs_quota = \"no\": expected true or false, without quotes",
        ),
        (
            "[exempt]\nnamespaces = \"a\"",
            "3: exempt.namespaces = \"a\": expected a list, such as [\"a\", \"b\"]",
        ),
    ] {
        assert_eq!(refused(text), format!("maitred.toml:{expected}"));
    }
    let pool = refused("[gpu]\nannotation_pool = 3");
    assert!(pool.contains("maitred.toml:3: ") && pool.contains("\"none\", \"all\""), "{pool}");
    for text in ["mode", "[policy", "mode = 1 2", "mode = \"a\"\nmode = \"b\""] {
        let message = refused(text);
        assert!(message.starts_with("maitred.toml:") && !message.contains('\n'), "{message}");
    }
}

#[test]
fn the_version_must_be_there_and_known() {
    let missing = Config::parse("mode = \"audit\"", "m").unwrap_err().to_string();
    assert!(missing.starts_with("m: version is missing: expected the line \"version = 1\""));
    let other = Config::parse("version = 2", "m").unwrap_err().to_string();
    assert_eq!(other, "m:1: version = 2: expected 1, the only version of this file there is");
}

#[test]
fn metrics_are_served_on_loopback_elsewhere_or_nowhere() {
    let listen = |text: &str| {
        let text = format!("version = 1\n{text}");
        Config::parse(&text, "a test").map(|config| config.metrics.map(|address| address.to_string()))
    };
    assert_eq!(listen("").unwrap().as_deref(), Some("127.0.0.1:9733"));
    assert_eq!(listen("[metrics]\nlisten = \"[::]:80\"").unwrap().as_deref(), Some("[::]:80"));
    assert_eq!(listen("[metrics]\nlisten = \"off\"").unwrap(), None);
    let message = refused("[metrics]\nlisten = \"localhost\"");
    assert!(message.contains("metrics.listen = \"localhost\": expected an address with a port"), "{message}");
}

#[test]
fn what_the_owner_says_of_gpus_and_of_the_kubelet_is_heard() {
    let text = "version = 1\nauthority = \"kubelet\"\n[gpu]\nplacement = \"choose\"\nlink = \"nvlink\"\nunrequested = \"hide\"";
    let config = Config::parse(text, "a test").unwrap();
    let settings = config.settings("0".parse().unwrap(), Features::default());
    assert_eq!(settings.authority, CpuAuthority::Kubelet);
    assert_eq!(settings.gpu_placement, GpuPlacement::Choose);
    assert_eq!((settings.gpus_linked, settings.unrequested), (true, Unrequested::Hide));
    let default = Config::default().settings("0".parse().unwrap(), Features::default());
    assert_eq!((default.gpu_placement, default.authority), (GpuPlacement::Keep, CpuAuthority::Maitred));
    assert_eq!((default.gpus_linked, default.unrequested), (false, Unrequested::Leave));
    for (text, words) in [
        ("authority = \"me\"", "auto, maitred, kubelet"),
        ("[gpu]\nplacement = \"best\"", "keep, repair, choose"),
        ("[gpu]\nlink = \"pcie\"", "any, nvlink"),
        ("[gpu]\nunrequested = \"drop\"", "leave, hide"),
    ] {
        let message = refused(text);
        assert!(message.replace('"', "").contains(words), "{message}");
    }
}

#[test]
fn cpu_options_exclude_each_other_as_in_the_kubelet() {
    let options = |list: &str| refused(&format!("[policy]\ntopology = \"none\"\n[cpu]\noptions = {list}"));
    assert!(options(r#"["full-pcpu"]"#).contains("cpu.options = \"full-pcpu\": expected one of"));
    for (one, other) in [
        ("distribute-cpus-across-cores", "full-pcpus-only"),
        ("distribute-cpus-across-numa", "distribute-cpus-across-cores"),
        ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"),
        ("distribute-cpus-across-numa", "prefer-align-cpus-by-uncorecache"),
    ] {
        let message = options(&format!("[{one:?}, {other:?}]"));
        assert_eq!(message, format!("maitred.toml:5: cpu.options: {other} cannot be combined with {one}"));
    }
    assert_eq!(
        refused("[cpu]\noptions = [\"align-by-socket\"]"),
        "maitred.toml:3: cpu.options: align-by-socket cannot be combined with policy.topology = \
         \"single-numa-node\""
    );
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,60}") {
        let _ = Config::parse(&text, "m");
    }

    #[test]
    fn no_value_panics(table in "policy|cpu|memory|gpu|nic|failure", key in "[a-z_]{1,8}", value in "\\PC{0,20}") {
        let _ = parse(&format!("[{table}]\n{key} = {value:?}\nreserved = {value:?}"));
    }
}

/// The README's table has every key of the packaged file, which a test of its own holds against what is understood.
#[test]
fn the_readme_names_every_key() {
    let readme = include_str!("../../README.md");
    let (mut section, mut keys) = (String::new(), 0);
    for line in PACKAGED.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = format!("{name}.");
        }
        let Some((key, _)) = line.trim_start_matches('#').split_once(" = ") else { continue };
        if key.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_') {
            keys += 1;
            assert!(readme.contains(&format!("`{section}{key}`")), "{section}{key}");
        }
    }
    assert!(keys > 25, "{keys}");
}
