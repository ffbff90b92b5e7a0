//! Pod annotations: `KEY`, `KEY/pod` or `KEY/container.NAME`; the most specific one counts.

use crate::model::{
    Bytes, ContainerName, CpuOption, CpuOptions, HugepageSize, MemoryMode, Quantity, Scope, TopologyPolicy,
    WordError,
};
use std::collections::BTreeMap;
use std::str::FromStr;

/// The domain all our keys are in.
const DOMAIN: &str = ".maitred.io";

/// The keys there are, in the order the README explains them.
const KEYS: [&str; 9] = [
    "policy",
    "scope",
    "cpu-options",
    "gpus",
    "gpu-link",
    "memory-policy",
    "hugepages-2Mi",
    "hugepages-1Gi",
    "exclusive",
];

/// An annotation that cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    /// A key of our domain that we do not know.
    #[error(
        "annotation {key:?} is not known: expected one of {known}, alone or followed by /pod or /container.NAME"
    )]
    UnknownKey { key: String, known: String },
    /// A suffix that names neither the pod nor a container.
    #[error("annotation {key:?}: {suffix:?} is neither \"pod\" nor \"container.NAME\"")]
    Suffix { key: String, suffix: String },
    /// A value that is not what the key takes.
    #[error("annotation {key:?} is {value:?}: expected {expected}")]
    Value { key: String, value: String, expected: String },
    /// A value that asks for more than the pod's namespace may.
    #[error(
        "annotation {key:?} is {value:?}, more lenient than this node's {strictest}: only namespaces in annotations.trusted_namespaces may ask for that"
    )]
    TooLenient { key: String, value: String, strictest: String },
    /// An option that is not one container's.
    #[error(
        "annotation {key:?} names {option}, which is about the shared pool of the whole node: expected it in the node's cpu.options alone"
    )]
    NodeWide { key: String, option: CpuOption },
}

/// How many GPUs an annotation asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GpuCount {
    Some(u32),
    All,
}

/// What the annotations say of one container; absent is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Wishes {
    pub policy: Option<TopologyPolicy>,
    pub scope: Option<Scope>,
    pub cpu_options: Option<CpuOptions>,
    pub gpus: Option<GpuCount>,
    pub linked: Option<bool>,
    /// Within, `None` is the kernel's default.
    pub memory_policy: Option<Option<MemoryMode>>,
    /// Bytes of huge pages by size, none of them zero.
    pub hugepages: BTreeMap<HugepageSize, Bytes>,
    pub exclusive: Option<bool>,
}

/// The node's own strictness, below which an untrusted namespace cannot go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Floor {
    pub policy: TopologyPolicy,
    pub scope: Scope,
    /// Whether sockets are as good as nodes.
    pub align_by_socket: bool,
    pub linked: bool,
    pub trusted: bool,
}

/// Reads what a pod's annotations say of one container, and checks every annotation of our domain on the
/// way: a typo must not let a container start unpinned.
pub(super) fn wishes(
    annotations: &BTreeMap<String, String>,
    container: &ContainerName,
    floor: Floor,
) -> Result<Wishes, AnnotationError> {
    let mut best: BTreeMap<&str, (u8, &str, &str)> = BTreeMap::new();
    for (key, value) in annotations {
        let Some((word, target)) = split(key)? else { continue };
        check(key, word, value)?;
        let rank = match target {
            Target::Container(name) if name == container.as_str() => 2,
            Target::Container(_) => continue,
            Target::Pod => 1,
            Target::Bare => 0,
        };
        if best.get(word).is_none_or(|(other, ..)| *other < rank) {
            best.insert(word, (rank, key, value));
        }
    }
    let mut wishes = Wishes::default();
    for (word, (_, key, value)) in best {
        apply(&mut wishes, word, key, value, floor)?;
    }
    Ok(wishes)
}

/// Whether some container of the pod is told by annotation how many huge pages of a size are its.
pub(super) fn names_hugepages(annotations: &BTreeMap<String, String>, size: HugepageSize) -> bool {
    let word = format!("hugepages-{size}");
    annotations.keys().any(|key| matches!(split(key), Ok(Some((found, _))) if found == word))
}

/// Whether some container of the pod is told so of any size.
pub(super) fn names_any_hugepages(annotations: &BTreeMap<String, String>) -> bool {
    [HugepageSize::MIB2, HugepageSize::GIB1].iter().any(|size| names_hugepages(annotations, *size))
}

enum Target<'a> {
    Bare,
    Pod,
    Container(&'a str),
}

fn split(key: &str) -> Result<Option<(&str, Target<'_>)>, AnnotationError> {
    let (name, suffix) = key.split_once('/').map_or((key, None), |(name, suffix)| (name, Some(suffix)));
    let Some(word) = name.strip_suffix(DOMAIN) else { return Ok(None) };
    if !KEYS.contains(&word) {
        let known = KEYS.map(|word| format!("{word}{DOMAIN}")).join(", ");
        return Err(AnnotationError::UnknownKey { key: key.into(), known });
    }
    let target = match suffix {
        None => Target::Bare,
        Some("pod") => Target::Pod,
        Some(suffix) => match suffix.strip_prefix("container.") {
            Some(name) if !name.is_empty() => Target::Container(name),
            _ => return Err(AnnotationError::Suffix { key: key.into(), suffix: suffix.into() }),
        },
    };
    Ok(Some((word, target)))
}

fn check(key: &str, word: &str, value: &str) -> Result<(), AnnotationError> {
    let lenient = Floor {
        policy: TopologyPolicy::None,
        scope: Scope::Container,
        align_by_socket: true,
        linked: false,
        trusted: true,
    };
    apply(&mut Wishes::default(), word, key, value, lenient)
}

fn apply(
    wishes: &mut Wishes,
    word: &str,
    key: &str,
    value: &str,
    floor: Floor,
) -> Result<(), AnnotationError> {
    match word {
        "policy" => wishes.policy = Some(no_laxer(key, value, floor.policy, floor.trusted)?),
        "scope" => wishes.scope = Some(no_laxer(key, value, floor.scope, floor.trusted)?),
        "cpu-options" => wishes.cpu_options = Some(cpu_options(key, value, floor)?),
        "gpu-link" => wishes.linked = Some(linked(key, value, floor)?),
        "gpus" => wishes.gpus = Some(gpu_count(key, value)?),
        // Whatever the mode, cpuset.mems is the limit: none asks for more than another.
        "memory-policy" => wishes.memory_policy = Some(memory_mode(key, value)?),
        "hugepages-2Mi" => wishes.hugepages.extend(pages(key, value, HugepageSize::MIB2)?),
        "hugepages-1Gi" => wishes.hugepages.extend(pages(key, value, HugepageSize::GIB1)?),
        _ => wishes.exclusive = Some(boolean(key, value)?),
    }
    Ok(())
}

fn parsed<T: FromStr<Err = WordError>>(key: &str, value: &str) -> Result<T, AnnotationError> {
    value.parse().map_err(|error: WordError| AnnotationError::Value {
        key: key.into(),
        value: value.into(),
        expected: format!("one of {}", error.expected),
    })
}

fn no_laxer<T>(key: &str, value: &str, floor: T, trusted: bool) -> Result<T, AnnotationError>
where
    T: FromStr<Err = WordError> + Ord + ToString,
{
    let wish: T = parsed(key, value)?;
    if wish < floor && !trusted {
        return Err(AnnotationError::TooLenient {
            key: key.into(),
            value: value.into(),
            strictest: floor.to_string(),
        });
    }
    Ok(wish)
}

/// Names separated by commas; none of them twice is no matter, and nothing at all is no option.
fn cpu_options(key: &str, value: &str, floor: Floor) -> Result<CpuOptions, AnnotationError> {
    let mut options = CpuOptions::default();
    for name in value.split(',').map(str::trim).filter(|_| !value.trim().is_empty()) {
        let option = parsed(key, name)?;
        match option {
            CpuOption::StrictReservation => {
                return Err(AnnotationError::NodeWide { key: key.into(), option });
            }
            // It takes placements over several nodes of a socket for aligned.
            CpuOption::AlignBySocket if !floor.align_by_socket && !floor.trusted => {
                let (key, value) = (key.into(), option.to_string());
                return Err(AnnotationError::TooLenient { key, value, strictest: "cpu.options".into() });
            }
            _ => options.0.insert(option),
        };
    }
    Ok(options)
}

fn gpu_count(key: &str, value: &str) -> Result<GpuCount, AnnotationError> {
    let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    match value {
        "all" => Ok(GpuCount::All),
        _ if digits && value.parse::<u32>().is_ok_and(|count| count <= 1024) => {
            Ok(GpuCount::Some(value.parse().unwrap_or(0)))
        }
        _ => Err(AnnotationError::Value {
            key: key.into(),
            value: value.into(),
            expected: "a number of GPUs from 0 to 1024, or all".into(),
        }),
    }
}

fn memory_mode(key: &str, value: &str) -> Result<Option<MemoryMode>, AnnotationError> {
    let known =
        || MemoryMode::ALL.iter().map(|(word, _)| *word).chain([MemoryMode::NONE]).collect::<Vec<_>>();
    match value {
        MemoryMode::NONE => Ok(None),
        _ => value.parse().map(Some).map_err(|_: WordError| AnnotationError::Value {
            key: key.into(),
            value: value.into(),
            expected: format!("one of {}", known().join(", ")),
        }),
    }
}

/// An amount of whole pages; `None` is none.
fn pages(
    key: &str,
    value: &str,
    size: HugepageSize,
) -> Result<Option<(HugepageSize, Bytes)>, AnnotationError> {
    let amount = value.parse::<Quantity>().ok().filter(|amount| amount.is_whole()).map(Quantity::units);
    match amount.filter(|bytes| bytes.is_multiple_of(size.bytes())) {
        Some(bytes) => Ok((bytes > 0).then_some((size, Bytes(bytes)))),
        None => Err(AnnotationError::Value {
            key: key.into(),
            value: value.into(),
            expected: format!("an amount of whole {size} pages, such as {}", Bytes(size.bytes() * 8)),
        }),
    }
}

fn linked(key: &str, value: &str, floor: Floor) -> Result<bool, AnnotationError> {
    match value {
        "nvlink" => Ok(true),
        "any" if floor.linked && !floor.trusted => Err(AnnotationError::TooLenient {
            key: key.into(),
            value: value.into(),
            strictest: "nvlink".into(),
        }),
        "any" => Ok(false),
        _ => Err(AnnotationError::Value {
            key: key.into(),
            value: value.into(),
            expected: "any or nvlink".into(),
        }),
    }
}

fn boolean(key: &str, value: &str) -> Result<bool, AnnotationError> {
    value.parse().map_err(|_| AnnotationError::Value {
        key: key.into(),
        value: value.into(),
        expected: "true or false".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: Floor = Floor {
        policy: TopologyPolicy::SingleNumaNode,
        scope: Scope::Container,
        align_by_socket: false,
        linked: false,
        trusted: false,
    };

    fn read(pairs: &[(&str, &str)], floor: Floor) -> Result<Wishes, String> {
        let annotations = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        wishes(&annotations, &"main".into(), floor).map_err(|error| error.to_string())
    }

    #[test]
    fn the_most_specific_one_counts() {
        let pairs =
            [("gpus.maitred.io", "1"), ("gpus.maitred.io/container.main", "2"), ("gpus.maitred.io/pod", "3")];
        assert_eq!(read(&pairs, STRICT).unwrap().gpus, Some(GpuCount::Some(2)));
        assert_eq!(read(&[pairs[0], pairs[2]], STRICT).unwrap().gpus, Some(GpuCount::Some(3)));
        assert_eq!(read(&[("gpus.maitred.io/container.side", "2")], STRICT).unwrap().gpus, None);
    }

    #[test]
    fn others_annotations_are_nobodys_business_of_ours() {
        let pairs = [("kubernetes.io/config.source", "api"), ("maitred.io", "x"), ("amaitred.io/x", "y")];
        assert_eq!(read(&pairs, STRICT).unwrap(), Wishes::default());
    }

    #[test]
    fn a_typo_is_an_error_also_when_it_is_another_containers() {
        for (pairs, want) in [
            (
                [("polcy.maitred.io", "none")],
                "annotation \"polcy.maitred.io\" is not known: expected one of policy.maitred.io",
            ),
            ([("gpus.maitred.io/main", "1")], "\"main\" is neither \"pod\" nor \"container.NAME\""),
            ([("gpus.maitred.io/container.", "1")], "neither \"pod\" nor"),
            (
                [("gpus.maitred.io/container.side", "two")],
                "is \"two\": expected a number of GPUs from 0 to 1024, or all",
            ),
            ([("gpus.maitred.io", "-1")], "expected a number of GPUs"),
            ([("gpus.maitred.io", "99999999999")], "expected a number of GPUs"),
            (
                [("cpu-options.maitred.io", "full-pcpu")],
                "is \"full-pcpu\": expected one of full-pcpus-only, ",
            ),
            ([("cpu-options.maitred.io", "full-pcpus-only,")], "is \"\": expected one of full-pcpus-only, "),
            (
                [("cpu-options.maitred.io", "strict-cpu-reservation")],
                "names strict-cpu-reservation, which is about the shared pool of the whole node",
            ),
            (
                [("cpu-options.maitred.io/container.main", "align-by-socket")],
                "is \"align-by-socket\", more lenient than this node's cpu.options",
            ),
            ([("gpu-link.maitred.io", "pcie")], "is \"pcie\": expected any or nvlink"),
            ([("exclusive.maitred.io", "no")], "is \"no\": expected true or false"),
            (
                [("policy.maitred.io", "strict")],
                "expected one of none, best-effort, restricted, single-numa-node",
            ),
            (
                [("memory-policy.maitred.io", "near")],
                "expected one of bind, preferred, preferred-many, interleave, weighted-interleave, local, none",
            ),
            ([("hugepages-2Mi.maitred.io", "3Mi")], "expected an amount of whole 2Mi pages, such as 16Mi"),
            ([("hugepages-1Gi.maitred.io", "512Mi")], "expected an amount of whole 1Gi pages, such as 8Gi"),
            ([("hugepages-4Mi.maitred.io", "4Mi")], "is not known"),
        ] {
            let error = read(&pairs, STRICT).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }

    #[test]
    fn only_trusted_namespaces_may_loosen() {
        let pairs = [("policy.maitred.io", "best-effort")];
        assert!(read(&pairs, STRICT).unwrap_err().contains("more lenient than this node's single-numa-node"));
        let linked = Floor { linked: true, ..STRICT };
        let any = [("gpu-link.maitred.io", "any")];
        assert!(read(&any, linked).unwrap_err().contains("more lenient than this node's nvlink"));
        assert_eq!(read(&any, Floor { trusted: true, ..linked }).unwrap().linked, Some(false));
        let trusted = Floor { trusted: true, ..STRICT };
        assert_eq!(read(&pairs, trusted).unwrap().policy, Some(TopologyPolicy::BestEffort));
        let lax = Floor { policy: TopologyPolicy::None, ..STRICT };
        assert_eq!(read(&pairs, lax).unwrap().policy, Some(TopologyPolicy::BestEffort));
    }
}
