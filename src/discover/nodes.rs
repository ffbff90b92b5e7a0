//! NUMA nodes, from `/sys/devices/system/node`; on a kernel without it one node with everything.

use super::root::malformed;
use super::{DiscoverError, Root, parse};
use crate::model::{Bytes, CpuSet, HugepagePool, HugepageSize, NodeId, NodeSet, NumaNode};
use std::collections::BTreeMap;
use std::path::PathBuf;

const NODES: &str = "sys/devices/system/node";
const WHOLE_HUGEPAGES: &str = "sys/kernel/mm/hugepages";
const MEMINFO: &str = "a line MemTotal in kB";

pub(super) fn read(root: &Root, online: &CpuSet) -> Result<Vec<NumaNode>, DiscoverError> {
    let ids = ids(root)?;
    if ids.is_empty() {
        return Ok(vec![whole_machine(root, online)?]);
    }
    let mut nodes: Vec<NumaNode> = Vec::new();
    for id in ids.iter() {
        let (node, list) = node(root, id, online, &ids)?;
        disjoint(&nodes, &node, list)?;
        nodes.push(node);
    }
    let covered = nodes.iter().fold(CpuSet::new(), |all, node| all.union(&node.cpus));
    match covered == *online {
        true => Ok(nodes),
        false => {
            let cpus = online.difference(&covered);
            Err(DiscoverError::CpusWithoutNode { path: root.full(NODES), cpus })
        }
    }
}

/// `node/online`, or without it every node directory.
fn ids(root: &Root) -> Result<NodeSet, DiscoverError> {
    if let Some(online) = root.list(&format!("{NODES}/online"))? {
        return Ok(online);
    }
    let listed = root.numbered(NODES, "node")?.unwrap_or_default();
    let list = listed.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    list.parse().map_err(|source| DiscoverError::List { path: root.full(NODES), source })
}

/// A CPU on two nodes would be given twice.
fn disjoint(earlier: &[NumaNode], node: &NumaNode, path: PathBuf) -> Result<(), DiscoverError> {
    match earlier.iter().find(|other| !other.cpus.is_disjoint(&node.cpus)) {
        None => Ok(()),
        Some(other) => Err(DiscoverError::NodesOverlap {
            path,
            node: node.id,
            cpus: node.cpus.intersection(&other.cpus),
            other: other.id,
        }),
    }
}

/// One node and the file its CPUs are from.
fn node(
    root: &Root,
    id: NodeId,
    online: &CpuSet,
    all: &NodeSet,
) -> Result<(NumaNode, PathBuf), DiscoverError> {
    let dir = format!("{NODES}/node{id}");
    let mask = format!("{dir}/cpumap");
    let cpus = root.set(&format!("{dir}/cpulist"), &mask)?;
    let absent = || DiscoverError::Missing { path: root.full(&mask), expected: "the CPUs of a node" };
    let (cpus, list): (CpuSet, _) = cpus.ok_or_else(absent)?;
    let node = NumaNode {
        id,
        cpus: cpus.intersection(online),
        memory_bytes: memory(root, &format!("{dir}/meminfo"))?,
        hugepages: hugepages(root, &format!("{dir}/hugepages"))?,
        distances: distances(root, &format!("{dir}/distance"), all)?,
    };
    Ok((node, list))
}

fn whole_machine(root: &Root, online: &CpuSet) -> Result<NumaNode, DiscoverError> {
    Ok(NumaNode {
        id: NodeId(0),
        cpus: online.clone(),
        memory_bytes: memory(root, "proc/meminfo")?,
        hugepages: hugepages(root, WHOLE_HUGEPAGES)?,
        distances: BTreeMap::from([(NodeId(0), 10)]),
    })
}

fn memory(root: &Root, path: &str) -> Result<u64, DiscoverError> {
    let total = root.value(path, MEMINFO, |text| parse::meminfo(text, "MemTotal"))?;
    total.ok_or_else(|| DiscoverError::Missing { path: root.full(path), expected: MEMINFO })
}

/// The pools of all page sizes; none where the kernel has no huge pages.
fn hugepages(root: &Root, dir: &str) -> Result<BTreeMap<HugepageSize, HugepagePool>, DiscoverError> {
    let mut pools = BTreeMap::new();
    for name in root.names(dir)?.unwrap_or_default() {
        let Some(text) = name.strip_prefix("hugepages-") else { continue };
        let size =
            text.parse().map_err(|_| malformed(root.full(dir), &name, "a name such as hugepages-2048kB"))?;
        let total = pages(root, &format!("{dir}/{name}/nr_hugepages"))?;
        let free = pages(root, &format!("{dir}/{name}/free_hugepages"))?;
        // Somebody may have made the pool smaller between the two reads.
        pools.insert(size, HugepagePool { total, free: free.min(total) });
    }
    Ok(pools)
}

/// What is free now of each page size on each node, in bytes.
///
/// # Errors
/// A file that should be there cannot be read or understood.
pub fn free_hugepages(root: &Root) -> Result<BTreeMap<(NodeId, HugepageSize), Bytes>, DiscoverError> {
    let ids = ids(root)?;
    let mut pools = Vec::new();
    for id in ids.iter() {
        pools.push((id, hugepages(root, &format!("{NODES}/node{id}/hugepages"))?));
    }
    if ids.is_empty() {
        pools.push((NodeId(0), hugepages(root, WHOLE_HUGEPAGES)?));
    }
    let bytes = |size: HugepageSize, pool: HugepagePool| Bytes(pool.free.saturating_mul(size.bytes()));
    let of_node = |(id, pools): (NodeId, BTreeMap<HugepageSize, HugepagePool>)| {
        pools.into_iter().map(move |(size, pool)| ((id, size), bytes(size, pool)))
    };
    Ok(pools.into_iter().flat_map(of_node).collect())
}

/// Reads the amounts of known nodes again: memory, and pools of huge pages.
pub(super) fn amounts(root: &Root, nodes: &mut [NumaNode]) -> Result<(), DiscoverError> {
    let no_directories = ids(root)?.is_empty();
    for node in nodes {
        let dir = format!("{NODES}/node{}", node.id);
        let (meminfo, pools) = match no_directories {
            true => ("proc/meminfo".to_owned(), WHOLE_HUGEPAGES.to_owned()),
            false => (format!("{dir}/meminfo"), format!("{dir}/hugepages")),
        };
        node.memory_bytes = memory(root, &meminfo)?;
        node.hugepages = hugepages(root, &pools)?;
    }
    Ok(())
}

fn pages(root: &Root, path: &str) -> Result<u64, DiscoverError> {
    let expected = "a number of pages";
    let pages = root.value(path, expected, parse::number)?;
    pages.ok_or_else(|| DiscoverError::Missing { path: root.full(path), expected })
}

fn distances(root: &Root, path: &str, all: &NodeSet) -> Result<BTreeMap<NodeId, u32>, DiscoverError> {
    let row = |text: &str| text.split_whitespace().map(parse::digits).collect::<Option<Vec<_>>>();
    let Some(row) = root.value(path, "distances such as 10 21", row)? else { return Ok(BTreeMap::new()) };
    match row.len() == all.len() {
        true => Ok(all.iter().zip(row).collect()),
        false => {
            Err(DiscoverError::DistanceRow { path: root.full(path), found: row.len(), nodes: all.clone() })
        }
    }
}
