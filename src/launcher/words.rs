//! The launcher's own arguments.

/// Nodes as a bit mask, of the kernel's largest `MAX_NUMNODES`.
pub const MOST_NODES: usize = 1024;
const WORD: usize = u64::BITS as usize;

/// A memory policy as the kernel takes it.
pub struct Policy {
    /// `MPOL_*`, with its flags.
    pub mode: usize,
    pub nodes: [u64; MOST_NODES / WORD],
}

/// `MPOL_F_STATIC_NODES`: the nodes are meant as numbered, whatever the cpuset.
const STATIC_NODES: usize = 1 << 15;
const BIND: usize = 2;

impl Policy {
    /// `MODE:NODES`, `local` or `none`.
    pub fn parse(word: &[u8]) -> Option<Self> {
        match word {
            b"none" => return Some(Self { mode: 0, nodes: [0; MOST_NODES / WORD] }),
            b"local" => return Some(Self { mode: 4, nodes: [0; MOST_NODES / WORD] }),
            _ => {}
        }
        let mut parts = word.splitn(2, |byte| *byte == b':');
        let mode = match parts.next()? {
            b"preferred" => 1,
            b"bind" => BIND,
            b"interleave" => 3,
            b"preferred-many" => 5,
            b"weighted-interleave" => 6,
            _ => return None,
        };
        Self::on(mode, parts.next()?)
    }

    /// A kernel list: `0`, `0-1,4`.
    fn on(mode: usize, list: &[u8]) -> Option<Self> {
        let mut nodes = [0; MOST_NODES / WORD];
        for range in list.split(|byte| *byte == b',') {
            let mut ends = range.splitn(2, |byte| *byte == b'-');
            let first = number(ends.next()?)?;
            let last = ends.next().map_or(Some(first), number)?;
            if first > last {
                return None;
            }
            for node in first..=last {
                *nodes.get_mut(node / WORD)? |= 1 << (node % WORD);
            }
        }
        Some(Self { mode: mode | STATIC_NODES, nodes })
    }
}

/// Huge pages that are to be there: `prove:PAGE_KIB:PAGES:NODES`.
pub struct Proof<'a> {
    pub word: &'a [u8],
    pub page_bytes: usize,
    pub pages: usize,
    /// Binds to the nodes.
    pub policy: Policy,
}

impl<'a> Proof<'a> {
    pub fn parse(word: &'a [u8]) -> Option<Self> {
        let mut parts = word.strip_prefix(b"prove:")?.splitn(3, |byte| *byte == b':');
        let page_bytes = number(parts.next()?)?.checked_mul(1024).filter(|bytes| bytes.is_power_of_two())?;
        let pages = number(parts.next()?)?;
        pages.checked_mul(page_bytes)?;
        Some(Self { word, page_bytes, pages, policy: Policy::on(BIND, parts.next()?)? })
    }
}

fn number(digits: &[u8]) -> Option<usize> {
    let digit = |sum: usize, byte: &u8| match byte {
        b'0'..=b'9' => sum.checked_mul(10)?.checked_add(usize::from(byte - b'0')),
        _ => None,
    };
    (!digits.is_empty()).then(|| digits.iter().try_fold(0, digit))?
}
