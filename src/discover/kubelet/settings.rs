//! What the kubelet is told, whoever tells it: flags, its configuration file, drop-ins beside it, and what RKE2 or k3s
//! will start it with. Flags count more than files, of flags the last, of files the last drop-in.

use super::distribution::Distribution;
use super::flags::{self, key_of};
use crate::discover::place::line_of;
use crate::discover::yaml::{mapping, word};
use crate::discover::{DiscoverError, Place, Process, Root, Said, processes};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Where kubeadm keeps the kubelet's configuration.
const CONFIG: &str = "var/lib/kubelet/config.yaml";
/// Where the kubelet keeps its state unless told otherwise.
const STATE_DIR: &str = "var/lib/kubelet";
/// How [`Place`] calls the command line of the kubelet that runs.
pub const RUNNING: &str = "the running kubelet's command line";

/// What the kubelet is told, by the keys of its configuration (`cpuManagerPolicy`).
#[derive(Debug, Default)]
pub struct KubeletSettings {
    values: BTreeMap<String, Said<Value>>,
    /// What the distribution will start it with, by the same keys.
    next: BTreeMap<String, Said<Value>>,
    /// Whether a kubelet's command line was seen.
    pub running: bool,
    /// The configuration file that is or would be read, without the first slash.
    pub config: String,
    /// The directory of the drop-ins, where there is one.
    pub drop_ins: Option<String>,
    /// Files that could not be read or understood. The kubelet does not start with these.
    pub unread: Vec<DiscoverError>,
}

impl KubeletSettings {
    /// Reads all of it.
    #[must_use]
    pub fn read(root: &Root, distribution: Option<&Distribution>) -> Self {
        let line = running(root);
        let flag = |name| line.as_deref().and_then(|line| flags::value(line, name));
        let inside = |path: String| path.trim_matches('/').to_owned();
        let agent = |dir| distribution.map(|found| format!("{}/agent/etc/{dir}", found.data_dir));
        let mut settings = Self {
            config: flag("--config").map_or_else(|| CONFIG.to_owned(), inside),
            drop_ins: flag("--config-dir").map(inside).or_else(|| agent("kubelet.conf.d")),
            running: line.is_some(),
            ..Self::default()
        };
        settings.files(root);
        let told = distribution.map_or(&[][..], |found| found.all("kubelet-arg"));
        settings.next = flags::of_arguments(told);
        let in_force = match &line {
            Some(line) => flags::of_command_line(line, &Place::words(RUNNING)),
            None => settings.next.clone(),
        };
        for (key, said) in in_force {
            // A file is where it can be changed: it is named where it says the same.
            let same = settings.next.get(&key).filter(|next| next.value == said.value).cloned();
            settings.values.insert(key, same.unwrap_or(said));
        }
        settings
    }

    fn files(&mut self, root: &Root) {
        let dir = self.drop_ins.clone();
        let names = dir.as_deref().map_or(Ok(None), |dir| root.names(dir));
        let mut names = names.unwrap_or_else(|error| {
            self.unread.push(error);
            None
        });
        let names = names.get_or_insert_default();
        names.sort();
        let dropped = names.iter().filter(|name| name.ends_with(".conf"));
        let dropped: Vec<_> =
            dropped.map(|name| format!("{}/{name}", dir.as_deref().unwrap_or(""))).collect();
        for path in [self.config.clone()].into_iter().chain(dropped) {
            match mapping(root, &path) {
                Ok(None) => {}
                Ok(Some((keys, text))) => self.merge(&path, keys, &text),
                Err(error) => self.unread.push(error),
            }
        }
    }

    /// Of a mapping single keys are replaced, of all else the whole.
    fn merge(&mut self, path: &str, keys: Map<String, Value>, text: &str) {
        for (key, value) in keys {
            let place =
                Place::file(path).at(line_of(text, &format!("{key}:")).or_else(|| line_of(text, &key)));
            match (self.values.get_mut(&key), value) {
                (_, Value::Null) => {}
                (Some(Said { value: Value::Object(before), place: was }), Value::Object(after)) => {
                    before.extend(after);
                    *was = place;
                }
                (_, value) => drop(self.values.insert(key, Said { value, place })),
            }
        }
    }

    /// A single value as text; `None` where nobody says anything, or nothing.
    #[must_use]
    pub fn word(&self, key: &str) -> Option<Said<String>> {
        of_word(self.values.get(key)?)
    }

    /// What it will be when the distribution starts it again, where that is told by its `kubelet-arg`.
    #[must_use]
    pub fn next_word(&self, key: &str) -> Option<Said<String>> {
        of_word(self.next.get(key)?)
    }

    /// The keys that the distribution's `kubelet-arg` says something of.
    pub fn next_keys(&self) -> impl Iterator<Item = &str> {
        self.next.keys().map(String::as_str)
    }

    /// `true` or `false`; `None` where nobody says anything, or something else.
    #[must_use]
    pub fn truth(&self, key: &str) -> Option<Said<bool>> {
        let said = self.word(key)?;
        let truth = match said.value.to_lowercase().as_str() {
            "true" | "yes" | "on" | "1" | "t" => true,
            "false" | "no" | "off" | "0" | "f" => false,
            _ => return None,
        };
        Some(said.map(|_| truth))
    }

    /// Words by words, such as `systemReserved`.
    #[must_use]
    pub fn map(&self, key: &str) -> Option<Said<BTreeMap<String, String>>> {
        let Said { value: Value::Object(map), place } = self.values.get(key)? else { return None };
        let words = map.iter().map(|(key, value)| (key.clone(), word(value))).collect();
        Some(Said { value: words, place: place.clone() })
    }

    /// `reservedMemory`: amounts by node, then by resource; what is no such thing is left out.
    #[must_use]
    pub fn reserved_memory(&self) -> Option<Said<BTreeMap<u32, BTreeMap<String, String>>>> {
        let Said { value: Value::Array(items), place } = self.values.get("reservedMemory")? else {
            return None;
        };
        let mut nodes = BTreeMap::<u32, BTreeMap<String, String>>::new();
        for item in items {
            let node = item.get("numaNode").map(word).and_then(|node| node.parse().ok());
            let limits = item.get("limits").and_then(Value::as_object);
            if let (Some(node), Some(limits)) = (node, limits) {
                nodes
                    .entry(node)
                    .or_default()
                    .extend(limits.iter().map(|(key, value)| (key.clone(), word(value))));
            }
        }
        Some(Said { value: nodes, place: place.clone() })
    }

    /// Where the kubelet keeps its state, without slashes around it.
    #[must_use]
    pub fn state_dir(&self) -> String {
        let said = self.word(key_of("root-dir").as_str());
        said.map_or_else(|| STATE_DIR.to_owned(), |dir| dir.value.trim_matches('/').to_owned())
    }
}

fn of_word(said: &Said<Value>) -> Option<Said<String>> {
    let scalar = !(said.value.is_object() || said.value.is_array());
    let text = scalar.then(|| word(&said.value)).filter(|text| !text.is_empty())?;
    Some(Said { value: text, place: said.place.clone() })
}

/// The command line of the kubelet that runs, if one does. What cannot be read of a process that has ended is nothing.
fn running(root: &Root) -> Option<Vec<String>> {
    let kubelet = |process: &Process| process.name == "kubelet" && process.is_the_hosts(root);
    let line = processes(root).into_iter().flatten().find(kubelet)?.line(root);
    (line.len() > 1).then_some(line)
}
