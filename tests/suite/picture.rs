//! Pictures of machines: read back as XML, and looked at as their readers do.

use crate::cli::{maitred, run};
use maitred::cli::picture::{Books, Note, Party, Picture, Seat, draw};
use maitred::model::{
    Bytes, Core, CpuId, CpuSet, Gpu, HugepagePool, HugepageSize, Llc, MemoryBlock, MemoryKind, Nic, NodeId,
    NumaNode, Package, PackageId, Topology,
};
use proptest::prelude::*;
use roxmltree::{Document, Node};
use std::collections::{BTreeMap, BTreeSet};

const MACHINE: &str = "tests/machines/two-sockets-four-nodes";
const SERVER: &str = "packaging/examples/h100-server.json";
const PODS: &str = "packaging/examples/full-node.yaml";

/// What a machine is made of.
#[derive(Debug, Clone)]
struct Shape {
    packages: u32,
    /// Of one package.
    nodes: u32,
    /// Of one node.
    cores: u32,
    threads: u32,
    /// Cores that share a cache; 0 is no cache.
    cache: u32,
    /// Nodes of memory alone.
    memory: u32,
    /// By node; past the last one is unknown.
    gpus: Vec<u32>,
    links: u32,
    switched: bool,
    nics: Vec<u32>,
    pages: u64,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let sizes = (1..4u32, 1..5u32, 1..9u32, 1..5u32, 0..5u32, 0..4u32);
    let devices = (
        proptest::collection::vec(0..14u32, 0..9),
        0..19u32,
        any::<bool>(),
        proptest::collection::vec(0..14u32, 0..5),
        0..9u64,
    );
    (sizes, devices).prop_map(|(sizes, devices)| {
        let (packages, nodes, cores, threads, cache, memory) = sizes;
        let (gpus, links, switched, nics, pages) = devices;
        Shape { packages, nodes, cores, threads, cache, memory, gpus, links, switched, nics, pages }
    })
}

fn machine(shape: &Shape) -> Topology {
    let nodes = shape.packages * shape.nodes;
    let all = nodes * shape.cores;
    let core =
        |core: u32| -> CpuSet { (0..shape.threads).map(|thread| CpuId(core + thread * all)).collect() };
    let cores = |range: std::ops::Range<u32>| range.fold(CpuSet::new(), |cpus, one| cpus.union(&core(one)));
    let of_node = |node: u32| cores(node * shape.cores..(node + 1) * shape.cores);
    let known = |node: &u32| Some(NodeId(*node)).filter(|_| *node < nodes + shape.memory);
    let node = |id: u32| NumaNode {
        id: NodeId(id),
        cpus: if id < nodes { of_node(id) } else { CpuSet::new() },
        memory_bytes: u64::from(id % 3) << 34,
        hugepages: BTreeMap::from([(
            HugepageSize::GIB1,
            HugepagePool { total: shape.pages, free: shape.pages / 2 },
        )]),
        distances: (0..nodes + shape.memory).map(|to| (NodeId(to), 10 + 10 * u32::from(to != id))).collect(),
    };
    let per_package = shape.nodes * shape.cores;
    let mut caches = Vec::new();
    for first in (0..all).step_by(shape.cache.max(1) as usize).filter(|_| shape.cache > 0) {
        caches.push(Llc { cpus: cores(first..(first + shape.cache).min(all)), size_bytes: Some(32 << 20) });
    }
    let gpus = shape.gpus.iter().enumerate().map(|(index, node)| {
        let others = (0..shape.gpus.len() as u32).filter(|other| *other != index as u32);
        Gpu {
            index: index as u32,
            uuid: Some(format!("GPU-{index}")),
            pci: format!("0000:{:02x}:00.0", index + 1).parse().unwrap(),
            minor: None,
            model: Some("NVIDIA \"H100\" <80GB>".into()),
            numa_node: known(node),
            memory_node: known(node).filter(|node| node.0 >= nodes),
            nvlinks: others
                .filter(|other| !(other + index as u32).is_multiple_of(3))
                .map(|other| (other, shape.links))
                .collect(),
            switch_links: if shape.switched { shape.links } else { 0 },
            near: BTreeMap::new(),
            mig: Vec::new(),
        }
    });
    let nics = shape.nics.iter().enumerate();
    Topology {
        cpus: cores(0..all),
        isolated: core(0),
        packages: (0..shape.packages)
            .map(|id| Package { id: PackageId(id), cpus: cores(id * per_package..(id + 1) * per_package) })
            .collect(),
        numa_nodes: (0..nodes + shape.memory).map(node).collect(),
        cores: (0..all).map(|one| Core { package: PackageId(one / per_package), cpus: core(one) }).collect(),
        llcs: caches,
        gpus: gpus.collect(),
        nics: nics
            .map(|(number, node)| Nic {
                name: format!("mlx5_{number}"),
                pci: None,
                numa_node: known(node),
                uverbs: Vec::new(),
            })
            .collect(),
        ..Topology::default()
    }
}

/// Deals CPUs, devices and memory out to parties of those names.
fn deal(topology: &Topology, names: &[String]) -> Vec<Party> {
    let mut cpus = topology.cpus.iter().skip(1);
    let party = |(number, name): (usize, &String)| {
        let seats = (0..=number % 2).map(|seat| Seat {
            name: format!("main{seat}"),
            words: "what it has".into(),
            cpus: cpus.by_ref().take(3).collect(),
            memory: topology
                .numa_nodes
                .iter()
                .skip(number % 3)
                .take(1)
                .map(|node| MemoryBlock {
                    nodes: [node.id].into_iter().collect(),
                    kind: MemoryKind::Memory,
                    bytes: Bytes(node.memory_bytes / 3),
                })
                .collect(),
            gpus: topology.gpus.iter().skip(number).take(1).map(|gpu| gpu.index.to_string()).collect(),
            nics: topology.nics.iter().skip(number).take(1).map(|nic| nic.name.clone()).collect(),
            passing: false,
        });
        Party { name: name.clone(), seats: seats.collect() }
    };
    names.iter().enumerate().map(party).collect()
}

fn picture<'a>(topology: &'a Topology, parties: Vec<Party>) -> Picture<'a> {
    let memory =
        topology.numa_nodes.iter().map(|node| ((node.id, MemoryKind::Memory), Bytes(node.memory_bytes)));
    let books = Books { reserved: CpuSet::single(CpuId(0)), allocatable: memory.collect() };
    Picture {
        topology,
        heading: "a picture".into(),
        summary: "of a machine".into(),
        parties,
        books: Some(books),
        notes: vec![Note { bad: true, text: "rejected: a <pod> & more".into() }],
    }
}

/// Everything drawn, with where it is by the translations around it.
fn placed<'a>(document: &'a Document<'a>) -> Vec<(Node<'a, 'a>, f64, f64)> {
    let shift = |node: &Node<'_, '_>| {
        let Some(text) = node.attribute("transform") else { return (0.0, 0.0) };
        let inner = text.strip_prefix("translate(").and_then(|text| text.strip_suffix(')')).expect(text);
        let (x, y) = inner.split_once(',').expect(text);
        (x.parse::<f64>().unwrap(), y.parse::<f64>().unwrap())
    };
    let drawn = document.descendants().filter(|node| node.is_element());
    let drawn = drawn.filter(|node| !node.ancestors().any(|above| above.has_tag_name("defs")));
    let at = |node: Node<'a, 'a>| {
        let (xs, ys): (Vec<f64>, Vec<f64>) = node.ancestors().map(|above| shift(&above)).unzip();
        (node, xs.iter().sum(), ys.iter().sum())
    };
    drawn.map(at).collect()
}

fn number(node: &Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name).unwrap_or("0").parse().unwrap()
}

/// The corners of what an element covers; of letters about as much as a usual font takes.
fn extent(node: &Node<'_, '_>) -> Option<[f64; 4]> {
    let (x, y) = (number(node, "x"), number(node, "y"));
    match node.tag_name().name() {
        "rect" => Some([x, y, x + number(node, "width"), y + number(node, "height")]),
        "text" => {
            let size = match node.attribute("class")? {
                "h" => 17.0,
                "b" => 12.0,
                "t" | "g" | "r" => 11.0,
                "w" => 10.0,
                "s" | "k" => 9.0,
                "n" => 7.5,
                "k3" => 7.0,
                "n4" => 6.0,
                other => panic!("a font nobody knows: {other}"),
            };
            let width =
                node.text()?.trim().chars().map(|c| if c.is_ascii() { 0.58 } else { 1.0 }).sum::<f64>()
                    * size;
            let x = match node.attribute("text-anchor") {
                None => x,
                Some("middle") => x - width / 2.0,
                Some("end") => x - width,
                Some(other) => panic!("{other}"),
            };
            Some([x, y - 0.8 * size, x + width, y + 0.2 * size])
        }
        "path" => {
            let text = node.attribute("d")?.replace(['M', 'C'], " ");
            let (mut xs, mut ys) = (Vec::new(), Vec::new());
            // `V` and `H` stand before one number, all others come in pairs.
            let text = text.replace('H', " H ").replace('V', " V ");
            let mut words = text.split_whitespace();
            while let Some(word) = words.next() {
                match word {
                    "H" => xs.push(words.next()?.parse::<f64>().ok()?),
                    "V" => ys.push(words.next()?.parse::<f64>().ok()?),
                    x => {
                        xs.push(x.parse::<f64>().ok()?);
                        ys.push(words.next()?.parse::<f64>().ok()?);
                    }
                }
            }
            let least = |all: &[f64]| all.iter().copied().fold(f64::INFINITY, f64::min);
            let most = |all: &[f64]| all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            Some([least(&xs), least(&ys), most(&xs), most(&ys)])
        }
        _ => None,
    }
}

fn check(svg: &str, topology: &Topology) -> Result<(), TestCaseError> {
    let document = Document::parse(svg).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let root = document.root_element();
    let (width, height) = (number(&root, "width"), number(&root, "height"));
    prop_assert_eq!(root.attribute("viewBox"), Some(&*format!("0 0 {width} {height}")));
    let mut cells: Vec<u32> = Vec::new();
    for (node, left, top) in placed(&document) {
        let name = node.tag_name().name();
        let known = ["svg", "title", "style", "defs", "g", "rect", "text", "path", "polygon"];
        prop_assert!(known.contains(&name), "{}", name);
        cells.extend(node.attribute("id").and_then(|id| id.strip_prefix("cpu")?.parse::<u32>().ok()));
        if let Some([x1, y1, x2, y2]) = extent(&node) {
            let inside = x1 + left >= 0.0 && y1 + top >= 0.0 && x2 + left <= width && y2 + top <= height;
            let at = (x1 + left, y1 + top, x2 + left, y2 + top);
            prop_assert!(inside, "{:?} of {} × {}: {:?} {:?}", at, width, height, node, node.text());
        }
    }
    cells.sort_unstable();
    let cpus: Vec<u32> = topology.cpus.iter().map(|cpu| cpu.0).collect();
    prop_assert_eq!(cells, cpus, "every CPU once");
    Ok(())
}

/// All that the document says, tooltips too.
fn words(svg: &str) -> BTreeSet<String> {
    let document = Document::parse(svg).unwrap();
    let texts = document.descendants().filter(|node| node.has_tag_name("text") || node.has_tag_name("title"));
    texts.filter_map(|node| Some(node.text()?.trim().to_owned())).collect()
}

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

fn small() -> Shape {
    Shape {
        packages: 1,
        nodes: 2,
        cores: 4,
        threads: 2,
        cache: 2,
        memory: 0,
        gpus: vec![0, 1],
        links: 4,
        switched: false,
        nics: vec![0],
        pages: 4,
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
    let document = Document::parse(&svg).unwrap();
    let key = |cpu: u32| {
        let cell =
            document.descendants().find(|node| node.attribute("id") == Some(&format!("cpu{cpu}"))).unwrap();
        let text = cell.next_siblings().find(|node| node.has_tag_name("text")).unwrap();
        text.text().unwrap().trim().to_owned()
    };
    let keys = [0, 1, 8, 9, 56, 79, 80].map(key);
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
