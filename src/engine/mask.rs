//! A set of NUMA nodes by their dense index, one bit each.

use std::fmt;
use std::ops::{BitAnd, BitOr, Not};

/// Nodes by dense index. Its order is the one ties are broken by: the mask as an integer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Mask(pub(crate) u128);

impl Mask {
    /// How many nodes a mask can hold.
    pub(crate) const LIMIT: usize = 128;

    /// No node.
    pub(crate) const EMPTY: Self = Self(0);

    /// The first `count` nodes.
    pub(crate) fn first(count: usize) -> Self {
        Self(if count >= Self::LIMIT { u128::MAX } else { (1 << count) - 1 })
    }

    /// One node.
    pub(crate) fn single(index: usize) -> Self {
        Self(1 << index)
    }

    /// Whether there is no node.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many nodes there are.
    pub(crate) fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the node is in.
    pub(crate) fn has(self, index: usize) -> bool {
        self.0 >> index & 1 == 1
    }

    /// Whether every node of this is in `other`.
    pub(crate) fn within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether there is a common node.
    pub(crate) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The nodes, ascending.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let index = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(index)
        })
    }
}

impl BitAnd for Mask {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for Mask {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Not for Mask {
    type Output = Self;
    fn not(self) -> Self {
        Self(!self.0)
    }
}

impl FromIterator<usize> for Mask {
    fn from_iter<T: IntoIterator<Item = usize>>(indices: T) -> Self {
        indices.into_iter().fold(Self::EMPTY, |mask, index| mask | Self::single(index))
    }
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
