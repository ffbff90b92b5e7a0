//! Sets of CPUs and of nodes. Ids are bounded by what a kernel can be built for.

use super::{CpuId, NodeId};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;

/// Something that can be a member of an [`IdSet`].
pub trait Id: Copy + Ord + fmt::Debug + fmt::Display {
    /// What a member is called in an error.
    const NOUN: &'static str;
    /// One more than the highest number a kernel can use.
    const LIMIT: u32;
    /// The id with that number.
    fn from_number(number: u32) -> Self;
    /// The id's number.
    fn number(self) -> u32;
}

impl Id for CpuId {
    const NOUN: &'static str = "CPU";
    /// The largest `CONFIG_NR_CPUS` of any architecture (x86 MAXSMP).
    const LIMIT: u32 = 8192;
    fn from_number(number: u32) -> Self {
        Self(number)
    }
    fn number(self) -> u32 {
        self.0
    }
}

impl Id for NodeId {
    const NOUN: &'static str = "node";
    /// `1 << CONFIG_NODES_SHIFT` at its largest.
    const LIMIT: u32 = 1024;
    fn from_number(number: u32) -> Self {
        Self(number)
    }
    fn number(self) -> u32 {
        self.0
    }
}

/// A set of CPUs.
pub type CpuSet = IdSet<CpuId>;
/// A set of NUMA nodes.
pub type NodeSet = IdSet<NodeId>;

/// A set of ids, one bit each; the words end with the highest member's.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdSet<I> {
    words: Vec<u64>,
    of: PhantomData<I>,
}

impl<I> Default for IdSet<I> {
    fn default() -> Self {
        Self { words: Vec::new(), of: PhantomData }
    }
}

impl<I: Id> IdSet<I> {
    /// The empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The set of one.
    #[must_use]
    pub fn single(id: I) -> Self {
        std::iter::once(id).collect()
    }

    /// Adds a member; says whether it is new.
    pub fn insert(&mut self, id: I) -> bool {
        let (word, bit) = place(id);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        new
    }

    /// Takes a member out; says whether it was there.
    pub fn remove(&mut self, id: I) -> bool {
        let (word, bit) = place(id);
        let was = self.contains(id);
        if was {
            self.words[word] &= !bit;
            self.trim();
        }
        was
    }

    /// Whether `id` is a member.
    #[must_use]
    pub fn contains(&self, id: I) -> bool {
        let (word, bit) = place(id);
        self.words.get(word).is_some_and(|w| w & bit != 0)
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The members, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = I> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            (0..64u32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| {
                // Words are bounded by LIMIT, so the index fits.
                #[allow(clippy::cast_possible_truncation)]
                I::from_number(index as u32 * 64 + bit)
            })
        })
    }

    /// The lowest member.
    #[must_use]
    pub fn first(&self) -> Option<I> {
        self.iter().next()
    }

    /// The highest member.
    #[must_use]
    pub fn last(&self) -> Option<I> {
        self.iter().next_back()
    }

    /// Members of either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    /// Members of both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    /// Members of this one that are not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.zip(other, |a, b| a & !b)
    }

    /// How many members are in both.
    #[must_use]
    pub fn common(&self, other: &Self) -> usize {
        self.words.iter().zip(&other.words).map(|(a, b)| (a & b).count_ones() as usize).sum()
    }

    /// Whether every member is in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.words.iter().enumerate().all(|(i, w)| w & !other.words.get(i).copied().unwrap_or(0) == 0)
    }

    /// Whether there is no common member.
    #[must_use]
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(a, b)| a & b == 0)
    }

    fn zip(&self, other: &Self, op: impl Fn(u64, u64) -> u64) -> Self {
        let at = |words: &[u64], i: usize| words.get(i).copied().unwrap_or(0);
        let most = self.words.len().max(other.words.len());
        let words = (0..most).map(|i| op(at(&self.words, i), at(&other.words, i))).collect();
        let mut set = Self { words, of: PhantomData };
        set.trim();
        set
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

fn place<I: Id>(id: I) -> (usize, u64) {
    let number = id.number();
    ((number / 64) as usize, 1 << (number % 64))
}

impl<I: Id> PartialOrd for IdSet<I> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// As the integer whose bits are the members: {1,2} before {0,3}.
impl<I: Id> Ord for IdSet<I> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_length = self.words.len().cmp(&other.words.len());
        by_length.then_with(|| self.words.iter().rev().cmp(other.words.iter().rev()))
    }
}

impl<I: Id> FromIterator<I> for IdSet<I> {
    fn from_iter<T: IntoIterator<Item = I>>(ids: T) -> Self {
        let mut set = Self::new();
        set.extend(ids);
        set
    }
}

impl<I: Id> Extend<I> for IdSet<I> {
    fn extend<T: IntoIterator<Item = I>>(&mut self, ids: T) {
        for id in ids {
            self.insert(id);
        }
    }
}

impl<I: Id> fmt::Debug for IdSet<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

impl<I: Id> Serialize for IdSet<I> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, I: Id> Deserialize<'de> for IdSet<I> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    #[test]
    fn orders_as_the_integer_of_its_bits() {
        let nodes = |list: &str| list.parse::<NodeSet>().unwrap();
        assert!(nodes("1-2") < nodes("0,3"));
        assert!(nodes("64") > nodes("0-63"));
        assert!(nodes("") < nodes("0"));
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_numbers(a in btree_set(0u32..300, 0..40), b in btree_set(0u32..300, 0..40)) {
            let set = |s: &std::collections::BTreeSet<u32>| s.iter().copied().map(CpuId).collect::<CpuSet>();
            let numbers = |s: CpuSet| s.iter().map(Id::number).collect::<std::collections::BTreeSet<_>>();
            prop_assert_eq!(numbers(set(&a).union(&set(&b))), a.union(&b).copied().collect());
            prop_assert_eq!(numbers(set(&a).intersection(&set(&b))), a.intersection(&b).copied().collect());
            prop_assert_eq!(numbers(set(&a).difference(&set(&b))), a.difference(&b).copied().collect());
            prop_assert_eq!(set(&a).is_subset(&set(&b)), a.is_subset(&b));
            prop_assert_eq!(set(&a).is_disjoint(&set(&b)), a.is_disjoint(&b));
            prop_assert_eq!(set(&a).len(), a.len());
            prop_assert_eq!(set(&a).common(&set(&b)), a.intersection(&b).count());
            prop_assert_eq!(set(&a).last().map(Id::number), a.last().copied());
            prop_assert_eq!(set(&a).to_string().parse::<CpuSet>().unwrap(), set(&a));
        }

        #[test]
        fn removing_what_was_added_leaves_an_equal_set(a in btree_set(0u32..300, 0..40), extra in 300u32..8192) {
            let set: CpuSet = a.iter().copied().map(CpuId).collect();
            let mut changed = set.clone();
            changed.insert(CpuId(extra));
            prop_assert!(changed.remove(CpuId(extra)));
            prop_assert_eq!(changed, set);
        }
    }
}
