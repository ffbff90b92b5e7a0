//! Where a cgroup lies in its hierarchy, from the two spellings runtimes use.
//!
//! The cgroupfs driver writes the path itself, `/kubepods/burstable/podUID/ID`. The systemd driver
//! writes `SLICE:PREFIX:NAME`; the unit is then `PREFIX-NAME.scope`, and the slice's own name tells
//! its parents: `a-b.slice` lies in `a.slice` (systemd.slice(5)).

use super::HostError;
use std::path::PathBuf;

const ABSOLUTE: &str = "expected an absolute path without . and .., or SLICE:PREFIX:NAME";
const SLICE: &str = "expected a slice such as kubepods-burstable.slice, with no / and no empty part";
const UNIT: &str = "expected SLICE:PREFIX:NAME with a NAME, and no / in it";

/// Where runc puts a systemd scope for which no slice was named.
const DEFAULT_SLICE: &str = "system.slice";

/// A container's cgroup from the runtime-spec's `cgroupsPath`, relative to the hierarchy's root.
pub(super) fn of_container(text: &str) -> Result<PathBuf, HostError> {
    if text.starts_with('/') {
        return absolute(text);
    }
    let mut parts = text.split(':');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(slice), Some(prefix), Some(name), None) => scope(text, slice, prefix, name),
        _ => Err(wrong(text, ABSOLUTE)),
    }
}

/// A pod's cgroup from the CRI's `cgroup_parent`: a path with either driver, or a slice alone.
pub(super) fn of_pod(text: &str) -> Result<PathBuf, HostError> {
    match text.starts_with('/') {
        true => absolute(text),
        false => slice(text, text),
    }
}

fn wrong(path: &str, expected: &'static str) -> HostError {
    HostError::CgroupsPath { path: path.to_owned(), expected }
}

fn absolute(text: &str) -> Result<PathBuf, HostError> {
    let parts = || text.split('/').filter(|part| !part.is_empty());
    let fine = parts().all(|part| part != "." && part != ".." && !part.contains('\0'));
    // The hierarchy's root is nobody's container and nobody's pod.
    match fine && parts().next().is_some() {
        true => Ok(parts().collect()),
        false => Err(wrong(text, ABSOLUTE)),
    }
}

fn scope(text: &str, in_slice: &str, prefix: &str, name: &str) -> Result<PathBuf, HostError> {
    let fine = |part: &str| !part.contains(['/', '\0']) && part != "." && part != "..";
    if name.is_empty() || !fine(name) || !fine(prefix) {
        return Err(wrong(text, UNIT));
    }
    let in_slice = if in_slice.is_empty() { DEFAULT_SLICE } else { in_slice };
    let unit = match (name.ends_with(".slice"), prefix) {
        (true, _) => name.to_owned(),
        (false, "") => format!("{name}.scope"),
        (false, prefix) => format!("{prefix}-{name}.scope"),
    };
    Ok(slice(text, in_slice)?.join(unit))
}

/// `a-b-c.slice` lies in `a.slice/a-b.slice`.
fn slice(text: &str, name: &str) -> Result<PathBuf, HostError> {
    let stem = name.strip_suffix(".slice").ok_or_else(|| wrong(text, SLICE))?;
    if stem == "-" {
        return Ok(PathBuf::new());
    }
    let empty_part = stem.split('-').any(str::is_empty);
    if empty_part || stem.contains(['/', '\0']) {
        return Err(wrong(text, SLICE));
    }
    let ends = stem.match_indices('-').map(|(at, _)| at).chain([stem.len()]);
    let path = ends.map(|end| format!("{}.slice", &stem[..end])).collect();
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Component;

    fn container(text: &str) -> String {
        of_container(text).unwrap().display().to_string()
    }

    #[test]
    fn cgroupfs_names_the_path_itself() {
        assert_eq!(container("/kubepods/burstable/pod1-2/abc"), "kubepods/burstable/pod1-2/abc");
        assert_eq!(container("//kubepods///pod/a:b:c/"), "kubepods/pod/a:b:c");
    }

    #[test]
    fn systemd_names_slice_prefix_and_name() {
        assert_eq!(
            container("kubepods-burstable-podf3_a.slice:cri-containerd:abc"),
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podf3_a.slice/cri-containerd-abc.scope"
        );
        assert_eq!(container("-.slice:crio:abc"), "crio-abc.scope");
        assert_eq!(container(":runc:abc"), "system.slice/runc-abc.scope");
        assert_eq!(container("machine.slice::abc"), "machine.slice/abc.scope");
        assert_eq!(container("machine.slice:x:machine-abc.slice"), "machine.slice/machine-abc.slice");
    }

    #[test]
    fn a_pod_is_a_path_with_either_driver_or_a_slice() {
        let pod = |text| of_pod(text).unwrap().display().to_string();
        assert_eq!(pod("/kubepods/pod1"), "kubepods/pod1");
        assert_eq!(pod("/kubepods.slice/kubepods-pod1.slice"), "kubepods.slice/kubepods-pod1.slice");
        assert_eq!(pod("kubepods-pod1.slice"), "kubepods.slice/kubepods-pod1.slice");
        assert!(of_pod("kubepods/pod1").is_err());
    }

    #[test]
    fn no_path_climbs_out_or_names_the_root() {
        for text in ["/../etc", "/a/../../etc", "/a/./b", "/", "//", "/a\0b", "/.."] {
            assert!(of_container(text).is_err() && of_pod(text).is_err(), "{text}");
        }
        for text in
            ["", "kubepods/a", "a:b", "a.slice:b:c:d", "a.slice:b:", "a.slice:../b:c", "a.slice:b:c/d"]
        {
            assert!(of_container(text).is_err(), "{text}");
        }
        for text in
            ["../a.slice:b:c", "a--b.slice:b:c", "-a.slice:b:c", "a-.slice:b:c", ".slice:b:c", "a:b:c"]
        {
            assert!(of_container(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_error_repeats_the_path_and_says_what_was_expected() {
        let error = of_container("/a/../b").unwrap_err().to_string();
        assert!(error.starts_with(r#""/a/../b" names no cgroup: expected an absolute path"#), "{error}");
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_stays_below_the_mount(text in "[/a.:\\-s]{0,12}|.{0,12}|[a\\-.]{0,6}\\.slice:.{0,4}:.{0,4}") {
            for path in [of_container(&text), of_pod(&text)].into_iter().flatten() {
                let normal = path.components().all(|part| matches!(part, Component::Normal(_)));
                prop_assert!(normal, "{:?} became {:?}", text, path);
            }
        }
    }
}
