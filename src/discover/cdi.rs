//! CDI specs: which device nodes stand behind a fully qualified CDI name (Container Device Interface, cncf-tags).
//!
//! Read by ourselves: the crate for it (container-device-interface) also validates, watches and applies specs with a
//! schema validator and a file watcher, and four fields are all that is wanted here.

use super::{DiscoverError, Root, Warning};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Ascending precedence: a device in a later directory hides its namesake in an earlier one.
pub(super) const DIRS: [&str; 2] = ["etc/cdi", "var/run/cdi"];

/// The major number of every `/dev/nvidiaN` (the kernel's `devices.txt`).
const NVIDIA_MAJOR: i64 = 195;

#[derive(Deserialize)]
struct Spec {
    kind: String,
    // What is written in Go has `null` for an empty list.
    #[serde(default)]
    devices: Option<Vec<Device>>,
    #[serde(default, rename = "containerEdits")]
    edits: Option<Edits>,
}

#[derive(Deserialize)]
struct Device {
    name: String,
    #[serde(default, rename = "containerEdits")]
    edits: Option<Edits>,
}

#[derive(Default, Deserialize)]
struct Edits {
    #[serde(default, rename = "deviceNodes")]
    nodes: Option<Vec<Node>>,
}

#[derive(Deserialize)]
struct Node {
    path: String,
    #[serde(default, rename = "hostPath")]
    host_path: Option<String>,
    #[serde(default)]
    major: Option<i64>,
    #[serde(default)]
    minor: Option<i64>,
}

impl Node {
    /// The node on the host. Where the numbers are a GPU's they count, whatever it is called.
    fn on_host(&self) -> String {
        match (self.major, self.minor) {
            (Some(NVIDIA_MAJOR), Some(minor)) => format!("/dev/nvidia{minor}"),
            _ => self.host_path.as_ref().filter(|path| !path.is_empty()).unwrap_or(&self.path).clone(),
        }
    }
}

/// What each fully qualified name puts into a container: device nodes, by their paths on the host.
pub(super) fn read(root: &Root, warnings: &mut Vec<Warning>) -> BTreeMap<String, Vec<String>> {
    let mut devices = BTreeMap::new();
    let mut ambiguous = BTreeSet::new();
    for dir in DIRS {
        let mut here = BTreeMap::new();
        for file in files(root, dir, warnings) {
            let path = format!("{dir}/{file}");
            match spec(root, &path) {
                Ok(Some(spec)) => add(root, dir, &file, spec, &mut here, &mut ambiguous, warnings),
                // It was taken away after the directory was listed.
                Ok(None) => {}
                Err(why) => warnings.push(Warning::CdiSpec { path: root.full(&path), why }),
            }
        }
        devices.extend(here.into_iter().map(|(name, (_, nodes))| (name, nodes)));
    }
    devices.retain(|name, _| !ambiguous.contains(name));
    devices
}

fn files(root: &Root, dir: &str, warnings: &mut Vec<Warning>) -> Vec<String> {
    let mut names = root.names(dir).unwrap_or_else(|error| {
        warnings.push(Warning::CdiSpec { path: root.full(dir), why: error.to_string() });
        None
    });
    let names = names.get_or_insert_default();
    names.retain(|name| name.ends_with(".json") || name.ends_with(".yaml"));
    names.sort();
    std::mem::take(names)
}

/// A spec that can be used, or what is wrong with it.
fn spec(root: &Root, path: &str) -> Result<Option<Spec>, String> {
    let spec: Option<Spec> = match path.ends_with(".json") {
        true => match root.read(path).map_err(why)? {
            Some(text) => Some(serde_json::from_str(&text).map_err(|error| error.to_string())?),
            None => None,
        },
        false => root.yaml(path).map_err(why)?,
    };
    let Some(spec) = spec else { return Ok(None) };
    let halves = spec.kind.split_once('/').filter(|(vendor, class)| !vendor.is_empty() && !class.is_empty());
    match (halves, spec.devices.iter().flatten().any(|device| device.name.is_empty())) {
        (None, _) => Err(format!("kind is {:?}: expected VENDOR/CLASS, such as nvidia.com/gpu", spec.kind)),
        (_, true) => Err("a device has no name".to_owned()),
        _ => Ok(Some(spec)),
    }
}

/// The text without the path, which the warning names.
fn why(error: DiscoverError) -> String {
    match error {
        DiscoverError::Yaml { source, .. } => crate::model::one_line(&source.to_string()),
        other => other.to_string(),
    }
}

type Here = BTreeMap<String, (String, Vec<String>)>;

fn add(
    root: &Root,
    dir: &str,
    file: &str,
    spec: Spec,
    here: &mut Here,
    ambiguous: &mut BTreeSet<String>,
    warnings: &mut Vec<Warning>,
) {
    // What the whole spec edits comes with each of its devices.
    let nodes = |edits: Option<Edits>| edits.and_then(|edits| edits.nodes).unwrap_or_default();
    let common = nodes(spec.edits);
    for device in spec.devices.into_iter().flatten() {
        let name = format!("{}={}", spec.kind, device.name);
        let nodes = nodes(device.edits).iter().chain(&common).map(Node::on_host).collect();
        if let Some((one, _)) = here.insert(name.clone(), (file.to_owned(), nodes)) {
            ambiguous.insert(name.clone());
            warnings.push(Warning::CdiTwice { name, dir: root.full(dir), one, other: file.to_owned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read_of(files: &[(&str, &str)]) -> (BTreeMap<String, Vec<String>>, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("sys")).unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut warnings = Vec::new();
        let devices = read(&Root::open(dir.path()).unwrap(), &mut warnings);
        let inside =
            |warning: &Warning| warning.to_string().replace(&format!("{}/", dir.path().display()), "");
        (devices, warnings.iter().map(inside).collect())
    }

    const YAML: &str = "cdiVersion: 0.6.0\nkind: nvidia.com/gpu\ndevices:\n- name: \"0\"\n  containerEdits:\n    \
        deviceNodes:\n    - path: /dev/nvidia3\n      hostPath: /run/nvidia/driver/dev/nvidia3\n\
        - name: GPU-b\n  containerEdits:\n    deviceNodes:\n    - {path: /dev/gpu, type: c, major: 195, minor: 1}\n    \
        env: [\"A=b\"]\ncontainerEdits:\n  deviceNodes:\n  - path: /dev/nvidiactl\n  hooks: []\n";

    fn json(kind: &str, name: &str, node: &str) -> String {
        format!(
            r#"{{"cdiVersion":"0.6.0","kind":"{kind}","devices":[{{"name":"{name}","containerEdits":
            {{"deviceNodes":[{{"path":"{node}"}}]}}}}]}}"#
        )
    }

    #[test]
    fn both_notations_give_nodes_on_the_host() {
        let nic = json("vendor.com/nic", "x", "/dev/nic0");
        let (devices, warnings) = read_of(&[
            ("etc/cdi/nvidia.yaml", YAML),
            ("var/run/cdi/nic.json", &nic),
            ("etc/cdi/README", "?"),
        ]);
        assert_eq!(warnings, [""; 0]);
        assert_eq!(devices["nvidia.com/gpu=0"], ["/run/nvidia/driver/dev/nvidia3", "/dev/nvidiactl"]);
        assert_eq!(devices["nvidia.com/gpu=GPU-b"], ["/dev/nvidia1", "/dev/nvidiactl"]);
        assert_eq!(devices["vendor.com/nic=x"], ["/dev/nic0"]);
    }

    #[test]
    fn null_is_an_empty_list() {
        let (devices, warnings) = read_of(&[
            ("etc/cdi/none.json", r#"{"kind":"a.b/c","devices":null,"containerEdits":null}"#),
            (
                "etc/cdi/bare.yaml",
                "kind: a.b/d\ndevices:\n- name: x\n  containerEdits: null\ncontainerEdits:\n",
            ),
        ]);
        assert_eq!(warnings, [""; 0]);
        assert_eq!((devices.len(), devices["a.b/d=x"].len()), (1, 0));
    }

    #[test]
    fn the_later_directory_counts_and_a_name_twice_in_one_is_nobodys() {
        let (one, other) = (json("a.b/c", "x", "/dev/one"), json("a.b/c", "x", "/dev/other"));
        let (devices, warnings) = read_of(&[("etc/cdi/a.json", &one), ("var/run/cdi/a.json", &other)]);
        assert_eq!((devices["a.b/c=x"].as_slice(), warnings.len()), (&["/dev/other".to_owned()][..], 0));
        let (devices, warnings) = read_of(&[("etc/cdi/a.json", &one), ("etc/cdi/b.json", &other)]);
        assert!(devices.is_empty());
        let twice = "the CDI device a.b/c=x is in two specs of etc/cdi, a.json and b.json: no runtime will resolve it";
        assert_eq!(warnings, [twice]);
    }

    #[test]
    fn a_bad_spec_is_named_and_the_others_count() {
        let good = json("a.b/c", "x", "/dev/one");
        for (file, bad, says) in [
            ("bad.json", "{", "EOF while parsing"),
            ("bad.yaml", "kind: [", ""),
            ("bad.json", r#"{"kind":"gpu"}"#, "kind is \"gpu\": expected VENDOR/CLASS"),
            ("bad.json", r#"{"kind":"a.b/c","devices":[{"name":""}]}"#, "a device has no name"),
            ("bad.json", r#"{"devices":[]}"#, "missing field `kind`"),
        ] {
            let (devices, warnings) =
                read_of(&[(&format!("etc/cdi/{file}"), bad), ("etc/cdi/good.json", &good)]);
            assert_eq!((devices.len(), warnings.len()), (1, 1), "{bad}");
            assert!(
                warnings[0].starts_with(&format!("the CDI spec etc/cdi/{file} is left out: ")),
                "{warnings:?}"
            );
            assert!(warnings[0].contains(says), "{warnings:?}");
        }
    }
}
