//! Pictures of machines: read back as XML, and looked at as their readers do.

mod reading;
mod shapes;
mod status;

use crate::cli::{maitred, run};
use maitred::cli::picture::{Picture, draw};
use maitred::model::NodeId;
use proptest::prelude::*;
use reading::{check, keys, words};
use roxmltree::{Document, Node};
use shapes::{Shape, deal, machine, picture, shapes, small};

const MACHINE: &str = "tests/machines/two-sockets-four-nodes";
const SERVER: &str = "packaging/examples/h100-server.json";
const PODS: &str = "packaging/examples/full-node.yaml";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_machine_is_drawn_whole_and_inside(shape in shapes(), names in proptest::collection::vec("\\PC{0,40}", 0..30)) {
        let topology = machine(&shape);
        check(&draw(&picture(&topology, deal(&topology, &names))), &topology)?;
        let alone = Picture { books: None, notes: Vec::new(), ..picture(&topology, Vec::new()) };
        check(&draw(&alone), &topology)?;
    }

    #[test]
    fn whatever_a_pod_is_called_is_text(name in ".{1,60}") {
        let topology = machine(&small());
        let svg = draw(&picture(&topology, deal(&topology, std::slice::from_ref(&name))));
        check(&svg, &topology)?;
        let shown: String = name.chars().map(|c| if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') { '\u{fffd}' } else { c }).collect();
        let title = format!("{shown} main0: what it has");
        prop_assert!(words(&svg).contains(title.trim()), "{:?}", name);
    }
}

/// What the properties above rest on.
#[test]
fn the_check_sees_what_is_wrong() {
    let topology = machine(&small());
    let svg = draw(&picture(&topology, deal(&topology, &["a".to_owned()])));
    check(&svg, &topology).unwrap();
    for (was, is) in [
        ("id=\"cpu3\"", "id=\"cpu2\""),
        ("translate(14,14)", "translate(-14,14)"),
        ("translate(14,14)", "translate(14,60)"),
        ("</style>", "</style><script/>"),
        ("<title>", "<title><"),
    ] {
        assert!(svg.contains(was), "{was}");
        assert!(check(&svg.replacen(was, is, 1), &topology).is_err(), "{was} as {is}");
    }
}

#[test]
fn markup_in_a_name_stays_a_name() {
    let topology = machine(&small());
    let name = "</title><script>alert(1)</script>&amp;\"'";
    let svg = draw(&picture(&topology, deal(&topology, &[name.to_owned()])));
    let document = Document::parse(&svg).unwrap();
    assert!(!document.descendants().any(|node| node.has_tag_name("script")));
    assert!(words(&svg).contains(&format!("{name} main0: what it has")));
    for word in ["<script", "href", "@import", "url(http"] {
        assert!(!svg.contains(word), "{word}");
    }
}

#[test]
fn without_colours_the_keys_tell_who_sits_where() {
    let (status, svg, _) = run(&["plan", PODS, "--topology", SERVER, "-o", "svg"]);
    assert_eq!(status, 1, "one is rejected");
    let keys = keys(&svg, &[0, 1, 8, 9, 56, 79, 80]);
    assert_eq!(keys, ["0", "A3", "A3", "9", "B", "B", "80"], "a free CPU has its number");
    let words = words(&svg);
    for told in [
        "inference/chat server: 16 CPUs: 1-8,113-120, GPU 0-1 (NV18), NIC mlx5_0, 200Gi",
        "CPU 120: inference/chat server",
        "CPU 0: kept for the system",
        "94 of 112 CPUs free",
        "memory: 343.98Gi of 1007.98Gi free",
    ] {
        assert!(words.contains(told), "{told}: {words:#?}");
    }
    let rejected = "rejected: inference/embed: TopologyAffinityError: no single NUMA node has 32 CPUs, 3 GPUs and \
                    100Gi: node 0 has 2 GPUs free; node 1 has no GPU free";
    assert!(words.contains(rejected), "{words:#?}");
}

#[test]
fn threads_of_a_core_are_in_one_outline_and_cores_of_a_cache_in_one_frame() {
    let topology = machine(&small());
    let svg = draw(&Picture { books: None, ..picture(&topology, Vec::new()) });
    let document = Document::parse(&svg).unwrap();
    let ids = |class: &str| -> Vec<Vec<String>> {
        let outlines = document.descendants().filter(|node| node.attribute("class") == Some(class));
        let inside = |outline: Node<'_, '_>| {
            let all = outline.parent().unwrap();
            let cells = all.descendants().filter_map(|node| Some(node.attribute("id")?.to_owned()));
            cells.collect::<Vec<_>>()
        };
        outlines.map(inside).filter(|cells| !cells.is_empty()).collect()
    };
    assert_eq!(ids("core")[..2], [["cpu0", "cpu8"], ["cpu1", "cpu9"]]);
    assert_eq!(ids("llc")[0], ["cpu0", "cpu8", "cpu1", "cpu9"]);
}

#[test]
fn memory_of_gpus_and_empty_nodes_are_told_apart() {
    let shape = Shape { memory: 4, gpus: vec![2, 0], ..small() };
    let mut topology = machine(&shape);
    topology.gpus[0].numa_node = Some(NodeId(0));
    let words = words(&draw(&Picture { books: None, ..picture(&topology, Vec::new()) }));
    // Every third node has no memory: 3 is one of memory alone, 0 has CPUs.
    for told in ["memory of GPU 0", "memory only", "node 3 without memory", "no memory"] {
        assert!(words.contains(told), "{told}: {words:#?}");
    }
}

#[test]
fn nvlink_is_arcs_between_some_and_a_bar_between_all() {
    let links = |shape: Shape| words(&draw(&picture(&machine(&shape), Vec::new())));
    let some = links(Shape { gpus: vec![0, 0, 1, 1], ..small() });
    assert!(some.contains("GPU 0 and GPU 1: NV4") && !some.contains("GPU 0 and GPU 3: NV4"), "{some:#?}");
    let switched = links(Shape { gpus: vec![0, 0, 1, 1], switched: true, links: 18, ..small() });
    assert!(switched.contains("NVSwitch: NV18"), "{switched:#?}");
    assert!(!links(Shape { links: 0, ..small() }).contains("NVLink"));
    let (_, svg, _) = run(&["topology", "--topology", SERVER, "-o", "svg"]);
    assert!(words(&svg).contains("any two connected: NV18"));
}

#[test]
fn a_small_machine_looks_like_this() {
    let (status, svg, err) = run(&["topology", "--sysroot", MACHINE, "-o", "svg"]);
    assert_eq!((status, err.as_str()), (0, ""));
    insta::assert_snapshot!("topology", svg);
    let pod = "kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: main, resources: {limits: {cpu: 2, memory: \
               1Gi, nvidia.com/gpu: 1, hugepages-1Gi: 4Gi}}}]}";
    let mut command = maitred(&["plan", "-", "--sysroot", MACHINE, "-o", "svg"]);
    let output = command.write_stdin(pod).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    insta::assert_snapshot!("plan", String::from_utf8(output.stdout).unwrap());
}

/// The pictures beside the examples are what is drawn; `MAITRED_BLESS=1` draws them anew.
#[test]
fn the_examples_are_drawn_as_they_are() {
    for (file, arguments) in [
        ("packaging/examples/full-node.svg", &["plan", PODS][..]),
        ("packaging/examples/h100-server.svg", &["topology"]),
    ] {
        let (_, svg, _) = run(&[arguments, &["--topology", SERVER, "-o", "svg"]].concat());
        if std::env::var_os("MAITRED_BLESS").is_some() {
            std::fs::write(file, &svg).unwrap();
        }
        let found = std::fs::read_to_string(file).unwrap_or_default();
        assert!(found == svg, "{file}: draw it anew with MAITRED_BLESS=1");
    }
}
