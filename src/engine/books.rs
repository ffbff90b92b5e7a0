//! Promised memory by node set, and what it leaves.

use super::machine::Machine;
use super::mask::Mask;
use std::collections::BTreeMap;

/// A promise to one container: so many bytes of one type from these nodes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) mask: Mask,
    /// Index into the machine's types of memory.
    pub(super) kind: usize,
    pub(super) bytes: u64,
}

/// Promises from one node set.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Book {
    /// Blocks, empty ones too: a set serves as one until its last block goes.
    blocks: usize,
    /// Bytes by type.
    bytes: Vec<u64>,
}

/// All promises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Books {
    books: BTreeMap<Mask, Book>,
    /// Bytes not promised, by node and type. A set's promises fill its nodes in ascending order.
    free: Vec<Vec<u64>>,
    /// The most there can be free, by node and type, whatever the promises say; empty is no limit.
    limits: BTreeMap<(usize, usize), u64>,
}

impl Books {
    pub(super) fn new(machine: &Machine) -> Self {
        Self { books: BTreeMap::new(), free: machine.capacity.clone(), limits: BTreeMap::new() }
    }

    pub(super) fn free(&self, node: usize, kind: usize) -> u64 {
        let free = self.free.get(node).and_then(|kinds| kinds.get(kind)).copied().unwrap_or(0);
        self.limits.get(&(node, kind)).map_or(free, |limit| free.min(*limit))
    }

    pub(super) fn limit(&mut self, node: usize, kind: usize, bytes: u64) {
        self.limits.insert((node, kind), bytes);
    }

    /// Nodes that may serve by themselves: those that are in no set of several.
    pub(super) fn singles(&self, all: Mask) -> Mask {
        let grouped = self.groups().fold(Mask::EMPTY, |mask, group| mask | group);
        all & !grouped
    }

    /// Nodes that nobody holds memory of.
    pub(super) fn unused(&self, all: Mask) -> Mask {
        let used = self.books.keys().fold(Mask::EMPTY, |mask, nodes| mask | *nodes);
        all & !used
    }

    /// Sets of several nodes that already serve as one.
    fn groups(&self) -> impl Iterator<Item = Mask> + '_ {
        self.books.keys().copied().filter(|mask| mask.count() > 1)
    }

    /// Those of them that share no node with another set; found ones may, decided ones never do.
    pub(super) fn proper_groups(&self) -> impl Iterator<Item = Mask> + '_ {
        self.groups().filter(|mask| !self.violates(*mask))
    }

    /// Whether `mask` would mix memory of one node with memory of several.
    pub(super) fn violates(&self, mask: Mask) -> bool {
        self.books.keys().any(|nodes| {
            let mixes = mask.count() > 1 || nodes.count() > 1;
            mixes && nodes.meets(mask) && *nodes != mask
        })
    }

    pub(super) fn add(&mut self, machine: &Machine, blocks: &[Block]) {
        for block in blocks {
            let empty = || Book { blocks: 0, bytes: vec![0; machine.kinds.len()] };
            let book = self.books.entry(block.mask).or_insert_with(empty);
            book.blocks += 1;
            book.bytes[block.kind] = book.bytes[block.kind].saturating_add(block.bytes);
        }
        self.refill(machine);
    }

    pub(super) fn remove(&mut self, machine: &Machine, blocks: &[Block]) {
        for block in blocks {
            let Some(book) = self.books.get_mut(&block.mask) else { continue };
            book.blocks = book.blocks.saturating_sub(1);
            book.bytes[block.kind] = book.bytes[block.kind].saturating_sub(block.bytes);
            if book.blocks == 0 {
                self.books.remove(&block.mask);
            }
        }
        self.refill(machine);
    }

    /// Takes bytes out of a block without ending it: its nodes serve its container still.
    pub(super) fn shrink(&mut self, machine: &Machine, block: Block) {
        if let Some(book) = self.books.get_mut(&block.mask) {
            book.bytes[block.kind] = book.bytes[block.kind].saturating_sub(block.bytes);
            self.refill(machine);
        }
    }

    fn refill(&mut self, machine: &Machine) {
        self.free.clone_from(&machine.capacity);
        for (mask, book) in &self.books {
            for (kind, bytes) in book.bytes.iter().enumerate() {
                let mut rest = *bytes;
                for node in mask.iter() {
                    let taken = rest.min(self.free[node][kind]);
                    self.free[node][kind] -= taken;
                    rest -= taken;
                }
            }
        }
    }
}
