//! Who holds what of a machine, turned round: by CPU, node and device.

use super::{Party, Picture, Seat, palette};
use crate::model::{CpuId, MemoryBlock, MemoryKind, NodeId};
use std::collections::BTreeMap;

/// Whoever holds something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Holder {
    /// What stands in everything it has.
    pub key: String,
    /// Which party's colour it has.
    pub colour: usize,
    /// `pod container`, for people.
    pub name: String,
    /// What it has, in words.
    pub words: String,
    /// An init container.
    pub passing: bool,
}

impl Holder {
    /// What its things are filled with.
    pub fn fill(&self) -> String {
        palette::fill(self.colour)
    }
}

/// A promise on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    /// Whose, as an index into [`Holders::all`].
    pub holder: usize,
    /// How much of this node.
    pub bytes: u64,
    /// Of a promise over several nodes, whose parts nobody knows: an equal part for each.
    pub split: bool,
}

/// A GPU or a part of it: its index, and its MIG device's.
pub(super) type GpuPart = (u32, Option<u32>);

/// Who holds what.
#[derive(Debug, Default)]
pub(super) struct Holders {
    /// Everyone who holds something that is drawn.
    pub all: Vec<Holder>,
    /// The names of those who do not.
    pub others: Vec<String>,
    pub cpus: BTreeMap<CpuId, usize>,
    pub memory: BTreeMap<(NodeId, MemoryKind), Vec<Share>>,
    pub gpus: BTreeMap<GpuPart, Vec<usize>>,
    pub nics: BTreeMap<String, Vec<usize>>,
    parties: usize,
}

impl Holders {
    /// Of a picture.
    pub fn of(picture: &Picture<'_>) -> Self {
        let mut holders = Self::default();
        for party in &picture.parties {
            let seated: Vec<&Seat> = party.seats.iter().filter(|seat| has_something(seat)).collect();
            let idle = party.seats.iter().filter(|seat| !has_something(seat));
            holders.others.extend(idle.map(|seat| format!("{} {}", party.name, seat.name)));
            holders.party(picture, party, &seated);
        }
        holders
    }

    fn party(&mut self, picture: &Picture<'_>, party: &Party, seats: &[&Seat]) {
        if seats.is_empty() {
            return;
        }
        let (colour, letters) = (self.parties, palette::letters(self.parties));
        self.parties += 1;
        let promised = promised(seats);
        for (number, (seat, blocks)) in seats.iter().zip(promised).enumerate() {
            let holder = self.all.len();
            self.all.push(Holder {
                key: if seats.len() == 1 { letters.clone() } else { format!("{letters}{}", number + 1) },
                colour,
                name: format!("{} {}", party.name, seat.name),
                words: seat.words.clone(),
                passing: seat.passing,
            });
            self.devices(picture, seat, holder);
            for cpu in seat.cpus.iter() {
                match seat.passing {
                    true => drop(self.cpus.entry(cpu).or_insert(holder)),
                    false => drop(self.cpus.insert(cpu, holder)),
                }
            }
            blocks.iter().for_each(|block| self.promise(holder, block));
        }
    }

    fn devices(&mut self, picture: &Picture<'_>, seat: &Seat, holder: usize) {
        let gpus = seat.gpus.iter().filter_map(|id| picture.topology.gpu_named(id));
        let gpus = gpus.map(|named| (named.gpu.index, named.mig.map(|mig| mig.index)));
        for gpu in gpus {
            hold(self.gpus.entry(gpu).or_default(), &self.all, holder);
        }
        for nic in &seat.nics {
            hold(self.nics.entry(nic.clone()).or_default(), &self.all, holder);
        }
    }

    fn promise(&mut self, holder: usize, block: &MemoryBlock) {
        let nodes = block.nodes.len() as u64;
        for node in block.nodes.iter() {
            let share = Share { holder, bytes: block.bytes.0 / nodes.max(1), split: nodes > 1 };
            if share.bytes > 0 {
                self.memory.entry((node, block.kind)).or_default().push(share);
            }
        }
    }

    /// How many colours are in use.
    pub fn colours(&self) -> usize {
        self.parties
    }

    /// Whoever it is.
    pub fn get(&self, holder: usize) -> &Holder {
        &self.all[holder]
    }
}

/// Of an init container and another one of its pod the other one has it.
fn hold(holders: &mut Vec<usize>, all: &[Holder], holder: usize) {
    let same_pod = |other: &usize| all[*other].colour == all[holder].colour;
    if all[holder].passing && holders.iter().any(same_pod) {
        return;
    }
    holders.retain(|other| !(same_pod(other) && all[*other].passing));
    holders.push(holder);
}

fn has_something(seat: &Seat) -> bool {
    !(seat.cpus.is_empty() && seat.memory.is_empty() && seat.gpus.is_empty() && seat.nics.is_empty())
}

/// What of each seat's memory is its own: later containers of a pod take over what those that pass had.
fn promised(seats: &[&Seat]) -> Vec<Vec<MemoryBlock>> {
    let mut all: Vec<Vec<MemoryBlock>> = Vec::new();
    for seat in seats {
        for block in &seat.memory {
            let mut rest = block.bytes.0;
            for (own, _) in all.iter_mut().zip(seats).filter(|(_, seat)| seat.passing) {
                for own in own.iter_mut().filter(|own| own.nodes == block.nodes && own.kind == block.kind) {
                    let taken = rest.min(own.bytes.0);
                    own.bytes.0 -= taken;
                    rest -= taken;
                }
            }
        }
        all.push(seat.memory.clone());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Bytes, Topology};

    fn seat(name: &str, cpus: &str, gib: u64, passing: bool) -> Seat {
        let memory = vec![MemoryBlock {
            nodes: "0".parse().unwrap(),
            kind: MemoryKind::Memory,
            bytes: Bytes(gib << 30),
        }];
        Seat { name: name.into(), cpus: cpus.parse().unwrap(), memory, passing, ..Seat::default() }
    }

    #[test]
    fn what_init_containers_had_is_their_successors() {
        let topology = Topology::default();
        let seats = vec![seat("init", "0-3", 8, true), seat("main", "0-1", 6, false)];
        let picture = Picture {
            topology: &topology,
            heading: String::new(),
            summary: String::new(),
            parties: vec![Party { name: "a".into(), seats }],
            books: None,
            notes: Vec::new(),
        };
        let holders = Holders::of(&picture);
        let cpus: Vec<usize> = holders.cpus.values().copied().collect();
        assert_eq!(cpus, [1, 1, 0, 0]);
        let shares = &holders.memory[&(NodeId(0), MemoryKind::Memory)];
        let gib: Vec<_> = shares.iter().map(|share| (share.holder, share.bytes >> 30)).collect();
        assert_eq!(gib, [(0, 2), (1, 6)]);
        assert_eq!([&*holders.get(0).key, &*holders.get(1).key], ["A1", "A2"]);
    }
}
