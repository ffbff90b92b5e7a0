//! Memory and huge pages of a node as bars, as long as there is of it beside the other nodes.

use super::canvas::{Block, SMALL, centred, rect, stack, title};
use super::holders::Holders;
use super::{Amounts, Books, Picture};
use crate::model::{Bytes, HugepagePool, HugepageSize, MemoryKind, NumaNode};
use std::collections::BTreeSet;
use svg::node::element::Group;

const BAR: f64 = 14.0;

/// A part of a bar.
struct Segment {
    bytes: u64,
    class: &'static str,
    fill: Option<String>,
    key: String,
    words: String,
}

impl Segment {
    fn state(bytes: u64, class: &'static str, words: impl Into<String>) -> Self {
        Self { bytes, class, fill: None, key: String::new(), words: words.into() }
    }
}

/// The bars of a node: ordinary memory, and every size of which there are pages.
pub(super) fn draw(picture: &Picture<'_>, holders: &Holders, node: &NumaNode, room: f64) -> Block {
    let nodes = &picture.topology.numa_nodes;
    let bars = Bars { picture, holders, node, room };
    let most = nodes.iter().map(|node| node.memory_bytes).max().unwrap_or(0);
    let sizes = node.hugepages.iter().filter(|(_, pool)| pool.total > 0);
    let pages = sizes.map(|(size, pool)| {
        let all = nodes.iter().filter_map(|node| node.hugepages.get(size)).map(|pool| pool.total);
        bars.pages(*size, *pool, all.max().unwrap_or(0))
    });
    let memory = (node.memory_bytes > 0).then(|| bars.memory(most));
    stack(memory.into_iter().chain(pages), 4.0)
}

struct Bars<'a> {
    picture: &'a Picture<'a>,
    holders: &'a Holders,
    node: &'a NumaNode,
    room: f64,
}

impl Bars<'_> {
    fn memory(&self, most: u64) -> Block {
        let total = self.node.memory_bytes;
        let pages = self.node.hugepages.iter().map(|(size, pool)| pool.total.saturating_mul(size.bytes()));
        let pages = pages.fold(0, u64::saturating_add).min(total);
        let free = self.free(MemoryKind::Memory);
        let mut segments = self.held(MemoryKind::Memory, |bytes| Bytes(bytes).to_string());
        let own: Vec<String> = self.gpus().map(|gpu| format!("GPU {gpu}")).collect();
        if let Some(books) = &self.picture.books {
            let kept =
                total.saturating_sub(pages).saturating_sub(self.allocatable(books, MemoryKind::Memory));
            segments.extend(self.beside(MemoryKind::Memory, |bytes| Bytes(bytes).to_string()));
            segments.push(match own.is_empty() {
                true => Segment::state(kept, "kept", format!("{} kept for the system", Bytes(kept))),
                false => Segment::state(kept, "closed", format!("{} of {}", Bytes(kept), own.join(", "))),
            });
        }
        segments.push(Segment::state(pages, "pages", format!("{} in huge pages", Bytes(pages))));
        let words = match free {
            Some(0) if !own.is_empty() => format!("memory: {}, not for containers", Bytes(total)),
            Some(free) => format!("memory: {} of {} free", Bytes(free), Bytes(total)),
            None => format!("memory: {}", Bytes(total)),
        };
        self.bar(&words, segments, total, total as f64 / most.max(1) as f64)
    }

    fn pages(&self, size: HugepageSize, pool: HugepagePool, most: u64) -> Block {
        let kind = MemoryKind::Hugepages(size);
        let total = pool.total.saturating_mul(size.bytes());
        let mut segments = self.held(kind, |bytes| format!("{} × {size}", bytes / size.bytes()));
        let free = match &self.picture.books {
            Some(books) => {
                let kept = total.saturating_sub(self.allocatable(books, kind));
                segments.extend(self.beside(kind, |bytes| format!("{} × {size}", bytes / size.bytes())));
                segments.push(Segment::state(kept, "kept", format!("{} kept for the system", Bytes(kept))));
                self.free(kind).unwrap_or(0) / size.bytes()
            }
            None => {
                let used = pool.total.saturating_sub(pool.free);
                segments.push(Segment::state(used * size.bytes(), "used", format!("{used} × {size} in use")));
                pool.free
            }
        };
        let words = format!("{size} pages: {free} of {} free", pool.total);
        self.bar(&words, segments, total, pool.total as f64 / most.max(1) as f64)
    }

    /// The GPUs whose memory this node is.
    fn gpus(&self) -> impl Iterator<Item = u32> {
        let all = self.picture.topology.gpus.iter();
        all.filter(|gpu| gpu.memory_node == Some(self.node.id)).map(|gpu| gpu.index)
    }

    fn allocatable(&self, books: &Books, kind: MemoryKind) -> u64 {
        books.allocatable.get(&(self.node.id, kind)).map_or(0, |bytes| bytes.0)
    }

    /// What can still be promised, where that is known.
    fn free(&self, kind: MemoryKind) -> Option<u64> {
        let (left, beside) = left(self.picture, self.holders, self.node, kind)?;
        Some(left - beside)
    }

    /// What nobody was promised and is in use all the same.
    fn beside(&self, kind: MemoryKind, words: impl Fn(u64) -> String) -> Option<Segment> {
        let (_, beside) = left(self.picture, self.holders, self.node, kind)?;
        Some(Segment::state(beside, "used", format!("{} in use beside the promises", words(beside))))
    }

    fn held(&self, kind: MemoryKind, words: impl Fn(u64) -> String) -> Vec<Segment> {
        let shares = self.holders.memory.get(&(self.node.id, kind)).into_iter().flatten();
        let segment = |share: &super::holders::Share| {
            let holder = self.holders.get(share.holder);
            let split = if share.split { ", its part of a promise over several nodes" } else { "" };
            Segment {
                bytes: share.bytes,
                class: "cell",
                fill: Some(holder.fill()),
                key: holder.key.clone(),
                words: format!("{}: {}{split}", holder.name, words(share.bytes)),
            }
        };
        shares.map(segment).collect()
    }

    fn bar(&self, words: &str, segments: Vec<Segment>, total: u64, share: f64) -> Block {
        let width = (self.room * share).clamp(self.room.min(24.0), self.room);
        let mut block = Block::new(self.room, BAR + 13.0);
        block.add(SMALL.line(0.0, 9.5, self.room, words));
        block.add(rect(0.0, 13.0, width, BAR, "box free"));
        let mut x = 0.0;
        for segment in segments.into_iter().filter(|segment| segment.bytes > 0) {
            // What was promised beyond what there is ends with the bar.
            let long = (width * segment.bytes as f64 / total.max(1) as f64).min(width - x);
            block.add(piece(x, long, &segment));
            x += long;
        }
        block
    }
}

fn piece(x: f64, width: f64, segment: &Segment) -> Group {
    let bar = rect(x, 13.0, width, BAR, &format!("cell {}", segment.class));
    let bar = match &segment.fill {
        Some(fill) => bar.set("style", format!("fill:{fill}")),
        None => bar,
    };
    let group = Group::new().add(title(&segment.words)).add(bar);
    match !segment.key.is_empty() && width >= segment.key.len() as f64 * 7.0 + 2.0 {
        true => group.add(centred(x + width / 2.0, 23.5, "k", &segment.key)),
        false => group,
    }
}

/// What the promises leave of a node, and what of that is in use all the same.
fn left(picture: &Picture<'_>, holders: &Holders, node: &NumaNode, kind: MemoryKind) -> Option<(u64, u64)> {
    let books = picture.books.as_ref()?;
    let of = |amounts: &Amounts| amounts.get(&(node.id, kind)).map(|bytes| bytes.0);
    let held = holders.memory.get(&(node.id, kind)).into_iter().flatten();
    let held = held.map(|share| share.bytes).fold(0, u64::saturating_add);
    let left = of(&books.allocatable).unwrap_or(0).saturating_sub(held);
    Some((left, left - of(&books.free).unwrap_or(left).min(left)))
}

/// Which states the bars of the whole picture show.
pub(super) fn states(picture: &Picture<'_>, holders: &Holders) -> BTreeSet<&'static str> {
    let pools = || picture.topology.numa_nodes.iter().flat_map(|node| node.hugepages.values());
    let mut states = BTreeSet::new();
    if pools().any(|pool| pool.total > 0) {
        states.insert("pages");
    }
    if picture.books.is_none() && pools().any(|pool| pool.free < pool.total) {
        states.insert("used");
    }
    let nodes = picture.topology.numa_nodes.iter();
    let mut kinds = nodes.flat_map(|node| {
        let pages = node.hugepages.keys().map(|size| MemoryKind::Hugepages(*size));
        pages.chain([MemoryKind::Memory]).map(move |kind| (node, kind))
    });
    if kinds.any(|(node, kind)| left(picture, holders, node, kind).is_some_and(|(_, beside)| beside > 0)) {
        states.insert("beside");
    }
    states
}
