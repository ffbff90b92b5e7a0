//! What the kubelet's CPU manager has decided, from its state file.
//!
//! The file is the kubelet's (`pkg/kubelet/cm/cpumanager/state`), so keys we do not know are passed
//! over; a value that is no CPU list is an error.

use crate::discover::{DiscoverError, Root};
use crate::model::{ContainerName, CpuSet, PodUid};
use serde::Deserialize;
use std::collections::BTreeMap;

pub(super) const STATE: &str = "var/lib/kubelet/cpu_manager_state";

/// The kubelet's CPU manager state.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeletCpuState {
    /// The policy in force: `none` or `static`.
    #[serde(rename = "policyName")]
    pub policy: String,
    /// The shared pool; empty under the policy `none`.
    #[serde(rename = "defaultCpuSet")]
    pub default_cpus: CpuSet,
    /// Exclusive CPUs by pod and container.
    #[serde(default)]
    pub entries: BTreeMap<PodUid, BTreeMap<ContainerName, CpuSet>>,
}

/// The kubelet's CPU manager state; `None` where there is no such file (no kubelet, or one whose root
/// directory is elsewhere).
///
/// # Errors
/// Where the file cannot be read or is not what the kubelet writes.
pub fn kubelet_cpu_policy(root: &Root) -> Result<Option<KubeletCpuState>, DiscoverError> {
    state_of_file(root, STATE)
}

/// The same of a kubelet whose root directory is `dir`.
///
/// # Errors
/// As [`kubelet_cpu_policy`].
pub fn kubelet_cpu_state(root: &Root, dir: &str) -> Result<Option<KubeletCpuState>, DiscoverError> {
    state_of_file(root, &format!("{dir}/cpu_manager_state"))
}

/// The policy that the Memory Manager's state file is of, in the kubelet's root directory `dir`; `None` where there is
/// no such file.
///
/// # Errors
/// As [`kubelet_cpu_policy`].
pub fn kubelet_memory_policy(root: &Root, dir: &str) -> Result<Option<String>, DiscoverError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct File {
        policy_name: String,
    }
    let file: Option<File> = state_of_file(root, &format!("{dir}/memory_manager_state"))?;
    Ok(file.map(|file| file.policy_name))
}

fn state_of_file<T: serde::de::DeserializeOwned>(
    root: &Root,
    path: &str,
) -> Result<Option<T>, DiscoverError> {
    let Some(text) = root.read(path)? else { return Ok(None) };
    let state = serde_json::from_str(&text);
    state.map(Some).map_err(|source| DiscoverError::Json { path: root.full(path), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn state_of(text: &str) -> Result<Option<KubeletCpuState>, DiscoverError> {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("sys")).unwrap();
        fs::create_dir_all(dir.path().join("var/lib/kubelet")).unwrap();
        fs::write(dir.path().join(STATE), text).unwrap();
        kubelet_cpu_policy(&Root::open(dir.path()).unwrap())
    }

    #[test]
    fn reads_policy_pool_and_entries() {
        let text = r#"{"policyName":"static","defaultCpuSet":"0-1,4-7",
            "entries":{"u-1":{"vllm":"2-3"}},"checksum":123}"#;
        let state = state_of(text).unwrap().unwrap();
        assert_eq!(state.policy, "static");
        assert_eq!(state.default_cpus.to_string(), "0-1,4-7");
        assert_eq!(state.entries[&PodUid::from("u-1")][&ContainerName::from("vllm")].to_string(), "2-3");
    }

    #[test]
    fn the_policy_none_has_neither() {
        let state = state_of(r#"{"policyName":"none","defaultCpuSet":"","checksum":1353318690}"#);
        let state = state.unwrap().unwrap();
        assert!(state.default_cpus.is_empty() && state.entries.is_empty());
    }

    #[test]
    fn what_is_no_state_is_an_error_with_the_place() {
        for text in
            ["", "{}", r#"{"policyName":"static"}"#, r#"{"policyName":"static","defaultCpuSet":"0-x"}"#]
        {
            let error = state_of(text).unwrap_err().to_string();
            assert!(error.contains("var/lib/kubelet/cpu_manager_state: "), "{error}");
        }
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("sys")).unwrap();
        assert_eq!(kubelet_cpu_policy(&Root::open(dir.path()).unwrap()).unwrap(), None);
    }
}
