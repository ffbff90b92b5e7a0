//! Why a container does not fit: a value with its evidence, not an error.

use super::{Bytes, ContainerName, MemoryKind, NodeSet, ResourceName, TopologyPolicy, one_line};
use std::fmt;

/// The reason's word; users search for the kubelet's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Cannot be aligned under the policy.
    TopologyAffinity,
    /// full-pcpus-only and no whole number of cores, or not enough whole cores.
    SmtAlignment,
    /// Too little of something, whatever the alignment.
    UnexpectedAdmission,
    /// An annotation, an environment value or another input of the pod is malformed or not allowed.
    InvalidRequest,
    /// maitred could not decide.
    Internal,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TopologyAffinity => "TopologyAffinityError",
            Self::SmtAlignment => "SMTAlignmentError",
            Self::UnexpectedAdmission => "UnexpectedAdmissionError",
            Self::InvalidRequest => "InvalidRequestError",
            Self::Internal => "InternalError",
        })
    }
}

/// A thing that can run short.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Exclusive CPUs.
    Cpu,
    /// Memory or huge pages; amounts are bytes.
    Memory(MemoryKind),
    /// Devices.
    Device(ResourceName),
}

impl Resource {
    /// The resource's name in a pod spec.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Cpu => "cpu".into(),
            Self::Memory(kind) => kind.to_string(),
            Self::Device(name) => name.to_string(),
        }
    }

    /// An amount of it in words: `16 CPUs`, `200Gi`, `2 nvidia.com/gpu`.
    #[must_use]
    pub fn amount(&self, count: u64) -> String {
        let many = if count == 1 { "" } else { "s" };
        match self {
            Self::Cpu => format!("{count} CPU{many}"),
            Self::Memory(MemoryKind::Memory) => Bytes(count).to_string(),
            Self::Memory(MemoryKind::Hugepages(size)) => {
                format!(
                    "{} hugepage{} of {size}",
                    count / size.bytes(),
                    if count == size.bytes() { "" } else { "s" }
                )
            }
            Self::Device(name) => format!("{count} {}{many}", device_word(name.as_str())),
        }
    }
}

fn device_word(resource: &str) -> &str {
    match resource {
        "nvidia.com/gpu" => "GPU",
        "nic" => "NIC",
        other => other,
    }
}

/// One resource of which a candidate has too little.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    /// What.
    pub resource: Resource,
    /// How much the request takes there.
    pub needed: u64,
    /// How much there is.
    pub available: u64,
}

/// A node set that was considered and why it will not do; nothing short means another reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The nodes.
    pub nodes: NodeSet,
    /// What runs short there.
    pub short: Vec<Shortage>,
}

/// The largest request of the same shape that would fit now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Largest {
    /// Where.
    pub nodes: NodeSet,
    /// What, resource by resource.
    pub amounts: Vec<(Resource, u64)>,
}

/// A refusal with its evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The reason's word.
    pub reason: Reason,
    /// The container, where one is to blame and not the pod as a whole.
    pub container: Option<ContainerName>,
    /// The sentence after the container's name, ready to be read.
    pub text: String,
    /// What was considered: single nodes first.
    pub candidates: Vec<Candidate>,
    /// A weaker policy under which it would be admitted now, and where.
    pub weaker: Option<(TopologyPolicy, NodeSet)>,
    /// The largest request that would fit now.
    pub largest: Option<Largest>,
}

impl Rejection {
    /// A refusal of a container for a reason that needs no evidence.
    pub fn of_container(reason: Reason, container: ContainerName, text: impl Into<String>) -> Self {
        let (candidates, weaker, largest) = (Vec::new(), None, None);
        Self { reason, container: Some(container), text: text.into(), candidates, weaker, largest }
    }
}

impl fmt::Display for Rejection {
    /// The one line a user sees: reason, container, sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let container = self.container.as_ref().map(|name| format!("container {name}: ")).unwrap_or_default();
        f.write_str(&one_line(&format!("{}: {container}{}", self.reason, self.text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pod_says_makes_no_second_line_and_no_endless_one() {
        let says = |text: &str| {
            let container = Some("main".into());
            let (candidates, weaker, largest) = (Vec::new(), None, None);
            let text = text.to_owned();
            Rejection { reason: Reason::InvalidRequest, container, text, candidates, weaker, largest }
                .to_string()
        };
        assert_eq!(says("GPU a\nb\u{1b}[2J"), "InvalidRequestError: container main: GPU a\\nb\\u{1b}[2J");
        assert_eq!(says("ü ok"), "InvalidRequestError: container main: ü ok");
        let long = says(&"x".repeat(1 << 20));
        assert!(long.len() < 2100 && long.ends_with("x…"));
        let escaped = says(&"\u{7f}".repeat(1 << 20));
        assert!(escaped.len() < 2100 && escaped.ends_with("\\u{7f}…"), "{}", escaped.len());
    }
}
