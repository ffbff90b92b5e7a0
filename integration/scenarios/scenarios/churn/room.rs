//! What must fit and what cannot: no more of the rules than is certain of any pod that needs one node.

use crate::machine::Machine;
use crate::pod::{CUDA_IMAGE, Pod};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Guaranteed, with so many CPUs of its own.
    Pinned(u64),
    /// Guaranteed with half a CPU: shared CPUs, and memory on one node.
    Fractional,
    Burstable,
    BestEffort,
}

/// What a pod asks for, all of it on one node.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    pub class: Class,
    pub gpus: usize,
    /// Of 2 MiB.
    pub pages: u64,
}

impl Ask {
    pub const fn of(class: Class) -> Ask {
        Ask { class, gpus: 0, pages: 0 }
    }

    pub fn pod(self, name: &str) -> Pod {
        let pod = match self.class {
            Class::Pinned(cpus) => Pod::guaranteed(name, cpus, 32),
            Class::Fractional => Pod::guaranteed(name, 1, 32).milli_cpus(500),
            Class::Burstable => Pod::burstable(name, 100),
            Class::BestEffort => Pod::best_effort(name),
        };
        let pod = if self.pages > 0 { pod.hugepages_2m(self.pages) } else { pod };
        let holding = |pod: Pod| pod.args(&["hold-huge", "2048", &self.pages.to_string()]);
        let pod = if self.touches() { holding(pod) } else { pod };
        let asking = |pod: Pod| pod.image(CUDA_IMAGE).annotation("gpus.maitred.io", &self.gpus.to_string());
        if self.gpus > 0 { asking(pod) } else { pod }
    }

    /// Whether it really takes its hugepages; of the others only their promise is held.
    pub fn touches(self) -> bool {
        !self.pages.is_multiple_of(2)
    }

    pub fn cpus(self) -> u64 {
        if let Class::Pinned(cpus) = self.class { cpus } else { 0 }
    }
}

#[derive(Debug, Clone, Copy)]
struct Free {
    cpus: u64,
    gpus: usize,
    pages: u64,
}

/// What is free on each node.
#[derive(Debug, Clone)]
pub struct Room(BTreeMap<u32, Free>);

/// What has to come of an attempt to make a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    Admitted,
    Refused,
    /// It depends on who comes first.
    Either,
}

impl Room {
    pub fn empty(machine: &Machine) -> Room {
        let free = |id| Free {
            cpus: machine.exclusive_cpus(id).len() as u64,
            gpus: machine.gpus_on(id).len(),
            pages: machine.nodes.iter().find(|numa| numa.id == id).map_or(0, |numa| numa.hugepages),
        };
        Room(machine.nodes.iter().map(|numa| (numa.id, free(numa.id))).collect())
    }

    /// Less by what this takes there.
    pub fn less(mut self, node: u32, ask: Ask) -> Room {
        if let Some(free) = self.0.get_mut(&node) {
            free.cpus = free.cpus.saturating_sub(ask.cpus());
            free.gpus = free.gpus.saturating_sub(ask.gpus);
            free.pages = free.pages.saturating_sub(ask.pages);
        }
        self
    }

    fn nodes(&self, ask: Ask) -> impl Iterator<Item = u32> {
        let holds =
            move |free: &Free| free.cpus >= ask.cpus() && free.gpus >= ask.gpus && free.pages >= ask.pages;
        self.0.iter().filter(move |(_, free)| holds(free)).map(|(id, _)| *id)
    }

    pub fn fits(&self, ask: Ask) -> bool {
        self.nodes(ask).next().is_some()
    }

    /// What must come of `ask`, made together with `others`, where at least `self` and at most `most` is free.
    pub fn due(&self, most: &Room, ask: Ask, others: &[Ask]) -> Due {
        if !most.fits(ask) {
            Due::Refused
        } else if self.fits_beside(most, ask, others) {
            Due::Admitted
        } else {
            Due::Either
        }
    }

    /// Whether it fits wherever the others may have sat down before it, or not at all.
    fn fits_beside(&self, most: &Room, ask: Ask, others: &[Ask]) -> bool {
        let Some((first, rest)) = others.split_first() else { return self.fits(ask) };
        let beside = |node| self.clone().less(node, *first).fits_beside(most, ask, rest);
        self.fits_beside(most, ask, rest) && most.nodes(*first).all(beside)
    }

    /// For each node a pod that takes all of it, such that one after the other they fit in no other way: the
    /// pickiest come first.
    pub fn to_the_last(&self) -> Vec<Ask> {
        let whole = |free: &Free| Ask { class: Class::Pinned(free.cpus), gpus: free.gpus, pages: free.pages };
        let mut all: Vec<Ask> = self.0.values().filter(|free| free.cpus > 0).map(whole).collect();
        all.sort_by_key(|ask| std::cmp::Reverse((ask.pages, ask.gpus, ask.cpus())));
        all
    }
}
