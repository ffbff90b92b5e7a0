//! Round trip, and one error of each kind with its place.

use super::*;
use crate::model::{
    Core, CpuId, CpuSet, Gpu, HugepagePool, HugepageSize, Llc, Mig, Nic, NodeId, NumaNode, Package,
    PackageId, PciAddress, PciDistance,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

/// Packages of nodes of cores of threads, numbered in order.
fn skeleton(packages: u32, nodes: u32, cores: u32, threads: u32) -> Topology {
    let block = |at: u32, size: u32| (at * size..(at + 1) * size).map(CpuId).collect::<CpuSet>();
    let (per_node, per_package) = (cores * threads, nodes * cores * threads);
    let node = |at: u32| NumaNode {
        id: NodeId(at),
        cpus: block(at, per_node),
        memory_bytes: 0,
        hugepages: [].into(),
        distances: [].into(),
    };
    let core = |at: u32| Core { package: PackageId(at / (nodes * cores)), cpus: block(at, threads) };
    Topology {
        cpus: block(0, packages * per_package),
        packages: (0..packages)
            .map(|at| Package { id: PackageId(at), cpus: block(at, per_package) })
            .collect(),
        numa_nodes: (0..packages * nodes).map(node).collect(),
        cores: (0..packages * nodes * cores).map(core).collect(),
        llcs: (0..packages * nodes).map(|at| Llc { cpus: block(at, per_node), size_bytes: None }).collect(),
        ..Topology::default()
    }
}

prop_compose! {
    fn filled()(
        shape in (1u32..3, 1u32..4, 1u32..4, 1u32..3),
        isolated in any::<bool>(),
        memory in vec((0u64..1 << 45, 0u64..100, 0u64..100), 9),
        memory_only in 0u64..1 << 40,
        distances in vec(10u32..255, 100),
        l3 in option::of(1u64..1 << 30),
        gpus in vec((option::of("GPU-[0-9a-f]{8}"), option::of(".{0,20}"), option::of(0u32..10), option::of(0u32..10)), 0..5),
        links in btree_map(0u32..5, 1u32..19, 0..5),
        (switches, far, parts) in (0u32..19, btree_map(0u32..5, 0usize..5, 0..5), vec(option::of((0u32..15, 0u32..8)), 0..4)),
        nics in vec((any::<bool>(), option::of(0u32..10)), 0..4),
    ) -> Topology {
        let mut machine = skeleton(shape.0, shape.1, shape.2, shape.3);
        machine.isolated = machine.cpus.iter().filter(|cpu| isolated && cpu.0 % 2 == 1).collect();
        machine.llcs.iter_mut().for_each(|llc| llc.size_bytes = l3);
        machine.numa_nodes.push(NumaNode {
            id: NodeId(250), cpus: CpuSet::new(), memory_bytes: memory_only, hugepages: [].into(), distances: [].into(),
        });
        let ids: Vec<NodeId> = machine.numa_nodes.iter().map(|node| node.id).collect();
        for (at, (node, (bytes, used, free))) in machine.numa_nodes.iter_mut().zip(memory).enumerate() {
            node.memory_bytes = bytes;
            node.hugepages.insert(HugepageSize::MIB2, HugepagePool { total: used + free, free });
            node.distances = ids.iter().copied().zip(distances.iter().skip(at * 10).copied()).collect();
        }
        let node = |at: Option<u32>| at.and_then(|at| ids.get(at as usize).copied());
        let address = |bus: usize| PciAddress { domain: 0x1_0000, bus: bus as u8, device: 31, function: 7 };
        let others = gpus.len() as u32;
        machine.gpus = gpus.into_iter().enumerate().map(|(at, (uuid, model, near, own))| Gpu {
            index: at as u32,
            uuid: uuid.map(|uuid| format!("{uuid}-{at}")),
            pci: address(at),
            minor: near.map(|_| 100 - at as u32),
            model,
            numa_node: node(near),
            memory_node: node(own),
            nvlinks: links.iter().map(|(k, v)| (*k, *v)).filter(|(k, _)| *k != at as u32 && *k < others).collect(),
            switch_links: switches,
            near: far.iter().map(|(k, v)| (*k, DISTANCES[*v])).filter(|(k, _)| *k != at as u32 && *k < others).collect(),
            mig: parts.iter().zip(0..).map(|(instance, index)| Mig {
                index, uuid: format!("MIG-{at}-{index}"), instance: *instance,
            }).collect(),
        }).collect();
        machine.nics = nics.into_iter().enumerate().map(|(at, (hardware, near))| Nic {
            name: format!("mlx5_{at}"),
            pci: hardware.then(|| address(128 + at)),
            numa_node: node(near),
            uverbs: Vec::new(),
        }).collect();
        machine
    }
}

proptest! {
    #[test]
    fn a_machine_survives_the_round_trip(machine in filled()) {
        let text = to_json(&machine);
        prop_assert_eq!(from_json(&text).unwrap(), machine);
        prop_assert_eq!(to_json(&from_json(&text).unwrap()), text);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,80}") {
        let _ = from_json(&text);
    }

    /// Any one character of a good snapshot may be damaged.
    #[test]
    fn no_damage_panics(machine in filled(), at in any::<prop::sample::Index>(), with in any::<char>()) {
        let mut text: Vec<char> = to_json(&machine).chars().collect();
        let at = at.index(text.len());
        text[at] = with;
        let _ = from_json(&text.into_iter().collect::<String>());
    }
}

const DISTANCES: [PciDistance; 5] =
    [PciDistance::Pix, PciDistance::Pxb, PciDistance::Phb, PciDistance::Node, PciDistance::Sys];

/// A small good snapshot, as in the documentation of the format.
const GOOD: &str = r#"{"version":1,"cpus":"0-3","isolated":"3","packages":[{"id":0,"cpus":"0-1"},{"id":4,"cpus":"2-3"}],
"numa_nodes":[{"id":0,"kind":"cpu+memory","cpus":"0-1","memory_bytes":1054867456,"hugepages":[{"size_bytes":2097152,"total":4,"free":3}],"distances":{"0":10,"9":12}},
{"id":9,"kind":"cpu","cpus":"2-3","memory_bytes":0,"hugepages":[],"distances":{"0":12,"9":10}}],
"cores":[{"package":0,"cpus":"0-1"},{"package":4,"cpus":"2-3"}],"llcs":[{"cpus":"0-1","size_bytes":16777216},{"cpus":"2-3","size_bytes":null}],
"gpus":[{"index":0,"uuid":"GPU-a","pci":"0000:21:00.0","minor":1,"model":null,"numa_node":0,"nvlinks":{"1":18}},
{"index":1,"uuid":"GPU-b","pci":"0000:22:00.0","minor":0,"model":null,"numa_node":null,"nvlinks":{"0":18}}],
"nics":[{"name":"mlx5_0","pci":"0000:23:00.0","numa_node":null},{"name":"rxe0","pci":null,"numa_node":9}]}"#;

#[test]
fn the_documented_form_is_read() {
    let machine = from_json(GOOD).unwrap();
    assert_eq!(machine.numa_nodes[1].id, NodeId(9));
    assert_eq!(machine.gpus[0].nvlinks[&1], 18);
    assert_eq!(machine.nics[0].numa_node, None);
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(value(&to_json(&machine)), value(GOOD));
}

/// What a GPU may have besides: absent is unknown.
#[test]
fn the_optional_keys_of_a_gpu_are_read() {
    let more = r#""nvlinks":{"0":18},"switch_links":18,"near":{"0":"PXB"},"mig":[{"index":2,"uuid":"MIG-a","instance":[7,0]},{"index":0,"uuid":"MIG-b"}]"#;
    let text = GOOD.replace(r#""nvlinks":{"0":18}"#, more);
    let gpu = &from_json(&text).unwrap().gpus[1];
    assert_eq!((gpu.switch_links, gpu.near[&0]), (18, PciDistance::Pxb));
    let mig = |index, uuid: &str, instance| Mig { index, uuid: uuid.into(), instance };
    assert_eq!(gpu.mig, [mig(0, "MIG-b", None), mig(2, "MIG-a", Some((7, 0)))]);
    for (from, to, expected) in [
        ("PXB", "NEAR", "unknown variant `NEAR`"),
        (
            r#""near":{"0""#,
            r#""near":{"1""#,
            r#"gpus[1].near: found the key "1", expected the index of another GPU"#,
        ),
        (r#""index":2"#, r#""index":0"#, "gpus[1].mig[1].index: 0 is also in gpus[1].mig[0].index"),
        ("MIG-b", "MIG-a", "gpus[1].mig[1].uuid: MIG-a is also in gpus[1].mig[0].uuid"),
        (r#""instance":[7,0]"#, r#""instance":[7]"#, "tuple of size 2"),
    ] {
        let error = from_json(&text.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.starts_with("snapshot: ") && error.contains(expected), "{to}: {error}");
    }
}

/// What is replaced by what, and what the error must say.
#[test]
fn each_impossible_machine_is_refused_with_place_and_value() {
    let cases = [
        (r#""version":1"#, r#""version":2"#, "version: found 2, expected 1"),
        (r#""version":1,"#, "", "missing field `version`"),
        (r#""isolated":"3","#, "", "missing field `isolated`"),
        (r#""isolated":"3""#, r#""isolated":"3","sockets":2"#, "unknown field `sockets`"),
        (r#""isolated":"3""#, r#""isolated":"9""#, "isolated: CPUs 9 are not in cpus"),
        (r#""cpus":"0-3""#, r#""cpus":"0-x""#, r#"cpus: "0-x" in the CPU list "0-x" is neither"#),
        (r#""cpus":"0-3""#, r#""cpus":"""#, "cpus: no CPUs, expected at least one"),
        (r#""cpus":"0-3""#, r#""cpus":"0-4""#, "packages: CPUs 4 are in cpus but in none of these"),
        (r#""cpus":"0-3""#, r#""cpus":"0-2""#, "isolated: CPUs 3 are not in cpus"),
        (
            r#"{"id":4,"cpus":"2-3"}"#,
            r#"{"id":0,"cpus":"2-3"}"#,
            "packages[1].id: 0 is also in packages[0].id",
        ),
        (
            r#"{"id":4,"cpus":"2-3"}"#,
            r#"{"id":4,"cpus":"1-3"}"#,
            "packages[1].cpus: CPUs 1 are also in packages[0].cpus",
        ),
        (r#"{"id":9,"kind""#, r#"{"id":0,"kind""#, "numa_nodes[1].id: 0 is also in numa_nodes[0].id"),
        (
            r#"{"id":9,"kind""#,
            r#"{"id":4096,"kind""#,
            "numa_nodes[1].id: found 4096, expected a number below 1024",
        ),
        (r#""kind":"cpu","#, r#""kind":"memory","#, "numa_nodes[1].kind: found memory, expected cpu, as its"),
        (r#""kind":"cpu","#, r#""kind":"cpus","#, "unknown variant `cpus`"),
        (
            r#""kind":"cpu","cpus":"2-3""#,
            r#""kind":"cpu","cpus":"2""#,
            "numa_nodes: CPUs 3 are in cpus but in none",
        ),
        (
            r#""size_bytes":2097152"#,
            r#""size_bytes":2097151"#,
            "numa_nodes[0].hugepages[0].size_bytes: found 2097151",
        ),
        (
            r#""free":3"#,
            r#""free":5"#,
            "numa_nodes[0].hugepages[0].free: found 5, expected no more than total, 4",
        ),
        (
            r#"{"0":12,"9":10}"#,
            r#"{"9":10}"#,
            "numa_nodes[1].distances: found 1 distances, expected one to each node, also to node 0",
        ),
        (
            r#"{"0":12,"9":10}"#,
            r#"{"0":12,"8":10}"#,
            r#"numa_nodes[1].distances: found the key "8", expected the id of one"#,
        ),
        (
            r#"{"0":12,"9":10}"#,
            r#"{"0":12,"9":10,"0":13}"#,
            "numa_nodes[1].distances: 0 is also in numa_nodes[1].distances",
        ),
        (r#"{"0":12,"9":10}"#, r#"[12,10]"#, "expected a map such as"),
        (
            r#"{"package":4,"cpus":"2-3"}"#,
            r#"{"package":0,"cpus":"2-3"}"#,
            "cores[1].cpus: CPUs 2-3 are not in package 0",
        ),
        (
            r#"{"package":4,"cpus":"2-3"}"#,
            r#"{"package":7,"cpus":"2-3"}"#,
            "cores[1].package: found 7, expected the id of one of packages",
        ),
        (r#"{"package":4,"cpus":"2-3"}"#, r#"{"package":4,"cpus":""}"#, "cores[1].cpus: no CPUs"),
        (r#"{"cpus":"2-3","size_bytes":null}"#, r#"{"cpus":"2-3"}"#, "missing field `size_bytes`"),
        (
            r#"{"cpus":"2-3","size_bytes":null}"#,
            r#"{"cpus":"1-3","size_bytes":1}"#,
            "llcs[1].cpus: CPUs 1 are also in llcs[0].cpus",
        ),
        (r#"{"index":1"#, r#"{"index":0"#, "gpus[1].index: 0 is also in gpus[0].index"),
        ("GPU-b", "GPU-a", "gpus[1].uuid: GPU-a is also in gpus[0].uuid"),
        ("0000:22:00.0", "0000:21:00.0", "gpus[1].pci: 0000:21:00.0 is also in gpus[0].pci"),
        ("0000:22:00.0", "22:00.0", r#"gpus[1].pci: "22:00.0" is no PCI address"#),
        (r#""minor":0"#, r#""minor":1"#, "gpus[1].minor: 1 is also in gpus[0].minor"),
        (r#""minor":0,"#, "", "missing field `minor`"),
        (
            r#""numa_node":0,"#,
            r#""numa_node":1,"#,
            "gpus[0].numa_node: found 1, expected null or the id of one of numa_nodes",
        ),
        (
            r#"{"0":18}"#,
            r#"{"1":18}"#,
            r#"gpus[1].nvlinks: found the key "1", expected the index of another GPU"#,
        ),
        (r#""name":"rxe0""#, r#""name":"mlx5_0""#, "nics[1].name: mlx5_0 is also in nics[0].name"),
        (r#""numa_node":9}"#, r#""numa_node":-1}"#, "invalid value: integer `-1`"),
    ];
    for (from, to, expected) in cases {
        assert!(GOOD.contains(from), "{from}");
        let error = from_json(&GOOD.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.starts_with("snapshot: ") && error.contains(expected), "{to}: {error}");
    }
}
