//! containerd's configuration: the main file, those it imports, and what comes of them together.
//!
//! The main file is read first, then what it imports, then what those import; of a path with `*` all that match, in the
//! order of their names. What a later file says replaces what an earlier one said: since containerd 2.0 key by key,
//! before that every plugin's table as a whole (`mergeConfig` of `cmd/containerd/server/config`). Lists grow.

use super::globs::{clean, matching};
use super::place::line_at;
use super::processes::{Process, processes};
use super::root::malformed;
use super::{DiscoverError, Place, Root, Said};
use crate::discover::kubelet::Distribution;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// Where a plain containerd's configuration lies.
const PLAIN: &str = "etc/containerd/config.toml";
/// As many files as anybody imports, and more.
const MOST_FILES: usize = 256;

/// The plugin that speaks NRI.
pub const NRI: &str = "io.containerd.nri.v1.nri";
/// The plugin of the CRI's runtime half, since version 3 of the configuration.
pub const CRI: &str = "io.containerd.cri.v1.runtime";
/// The plugin of the CRI's images, likewise.
const IMAGES: &str = "io.containerd.cri.v1.images";
/// Both before.
pub const OLD_CRI: &str = "io.containerd.grpc.v1.cri";

/// A value: what is no table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `true` or `false`.
    Truth(bool),
    /// Anything else, as text without quotes.
    Text(String),
    /// Several, as text; what is no text or number in it is left out.
    List(Vec<String>),
}

/// A table that is another version's: containerd passes over what stands in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedOver {
    /// The plugin that it names.
    pub table: String,
    /// The plugin that reads such keys in a file of this version.
    pub belongs: &'static str,
    /// The version of the file.
    pub version: u32,
    /// The first line of it that belongs there.
    pub place: Place,
}

/// containerd's configuration.
#[derive(Debug, Default)]
pub struct Containerd {
    /// The main file, without the first slash; it may be absent, which is all defaults.
    pub main: String,
    /// Whether it is there.
    pub is_there: bool,
    /// The `version` of the main file; 1 where it says none.
    pub version: u32,
    /// Every file that was read.
    pub files: Vec<String>,
    /// What it imports, as it is written.
    pub imports: Vec<Said<String>>,
    values: BTreeMap<Vec<String>, Said<Value>>,
    /// The tables it passes over.
    pub passed_over: Vec<PassedOver>,
    /// Files that could not be read or understood, and imports of files that are absent. It does not start with these.
    pub unread: Vec<DiscoverError>,
}

/// The containerd that serves the kubelet, among those that run.
#[must_use]
pub fn running_containerd(root: &Root, distribution: Option<&Distribution>) -> Option<Process> {
    let is_one = |process: &Process| process.name == "containerd" && process.is_the_hosts(root);
    let all = processes(root)?.into_iter().filter(is_one);
    let mut all: Vec<_> = all.map(|process| (process.line(root).join(" "), process)).collect();
    match distribution {
        Some(found) => all.retain(|(line, _)| line.contains(&found.data_dir) || line.contains("/run/k3s/")),
        // Docker keeps a containerd of its own.
        None => all.retain(|(line, _)| !line.contains("/docker/")),
    }
    all.into_iter().next().map(|(_, process)| process)
}

impl Containerd {
    /// Reads the configuration of the containerd that serves the kubelet. `whole_tables` is how containerd before 2.0
    /// merges.
    #[must_use]
    pub fn read(
        root: &Root,
        distribution: Option<&Distribution>,
        whole_tables: impl Fn(u32) -> bool,
    ) -> Self {
        let line =
            running_containerd(root, distribution).map(|process| process.line(root)).unwrap_or_default();
        let main = named_on(&line).unwrap_or_else(|| match distribution {
            Some(found) => format!("{}/agent/etc/containerd/config.toml", found.data_dir),
            None => PLAIN.to_owned(),
        });
        let mut config = Self { main: main.clone(), version: 1, ..Self::default() };
        let mut ahead = VecDeque::from([(main, None)]);
        let mut known = BTreeSet::new();
        while let Some((path, import)) = ahead.pop_front() {
            if !known.insert(path.clone()) || known.len() > MOST_FILES {
                continue;
            }
            match config.file(root, &path, import, &whole_tables) {
                Ok(imports) => ahead.extend(imports.into_iter().map(|(path, place)| (path, Some(place)))),
                Err(error) => config.unread.push(error),
            }
        }
        config
    }

    /// Takes one file in; what it imports.
    fn file(
        &mut self,
        root: &Root,
        path: &str,
        import: Option<Place>,
        whole_tables: impl Fn(u32) -> bool,
    ) -> Result<Vec<(String, Place)>, DiscoverError> {
        let is_main = import.is_none();
        let Some(text) = root.text(path)? else {
            let expected = "the file that another one imports";
            return if is_main {
                Ok(Vec::new())
            } else {
                Err(DiscoverError::Missing { path: root.full(path), expected })
            };
        };
        let text = text.trim_start_matches('\u{feff}');
        let failed = |error: toml::de::Error| malformed_toml(root, path, text, &error);
        let parsed = DeTable::parse(text).map_err(failed)?;
        let mut values = Vec::new();
        flatten(parsed.get_ref(), &mut Vec::new(), &mut |key, value, at| {
            values.push((key, Said { value, place: Place::file(path).at(line_at(text, at)) }));
        });
        self.files.push(path.to_owned());
        let version =
            values.iter().find(|(key, _)| key[..] == ["version"]).and_then(|(_, said)| said.number());
        let version = version.unwrap_or(1);
        if is_main {
            (self.is_there, self.version) = (true, version);
        }
        let imports: Vec<_> =
            values.iter().filter(|(key, _)| key[..] == ["imports"]).map(|(_, said)| said.clone()).collect();
        self.merge(values, version, whole_tables(self.version));
        self.follow(root, path, imports)
    }

    fn merge(&mut self, values: Vec<(Vec<String>, Said<Value>)>, version: u32, whole_tables: bool) {
        let is_read = |(key, _): &(Vec<String>, _)| reads(key, version, whole_tables);
        let (values, rest): (Vec<_>, Vec<_>) = values.into_iter().partition(is_read);
        self.pass_over(rest, version);
        let values: Vec<_> = values.into_iter().map(|(key, said)| (modern(key, version), said)).collect();
        if whole_tables {
            let plugin = |key: &[String]| (key.len() > 2 && key[0] == "plugins").then(|| key[1].clone());
            let told: BTreeSet<_> = values.iter().filter_map(|(key, _)| plugin(key)).collect();
            self.values.retain(|key, _| plugin(key).is_none_or(|plugin| !told.contains(&plugin)));
        }
        for (key, said) in values {
            match (self.values.get_mut(&key), &said.value) {
                (Some(Said { value: Value::List(before), .. }), Value::List(more)) => {
                    let new: Vec<_> = more.iter().filter(|item| !before.contains(item)).cloned().collect();
                    before.extend(new);
                }
                _ => drop(self.values.insert(key, said)),
            }
        }
    }

    fn pass_over(&mut self, values: Vec<(Vec<String>, Said<Value>)>, version: u32) {
        for (key, Said { place, .. }) in values {
            let belongs = match key[1] == OLD_CRI {
                true if IMAGE_KEYS.contains(&key[2].as_str()) => IMAGES,
                true => CRI,
                false => OLD_CRI,
            };
            let found = PassedOver { table: key[1].clone(), belongs, version, place };
            let same = |one: &&mut PassedOver| {
                (&one.table, one.belongs, &one.place.file) == (&found.table, belongs, &found.place.file)
            };
            match self.passed_over.iter_mut().find(same) {
                Some(known) => known.place.line = known.place.line.min(found.place.line),
                None => self.passed_over.push(found),
            }
        }
    }

    fn follow(
        &mut self,
        root: &Root,
        from: &str,
        imports: Vec<Said<Value>>,
    ) -> Result<Vec<(String, Place)>, DiscoverError> {
        let mut files = Vec::new();
        for Said { value, place } in imports {
            let Value::List(paths) = value else { continue };
            for written in paths {
                let dir = Path::new(from).parent().unwrap_or(Path::new(""));
                let path = clean(&dir.join(&written));
                self.imports.push(Said { value: written, place: place.clone() });
                match path.contains('*') {
                    true => {
                        files.extend(matching(root, &path)?.into_iter().map(|path| (path, place.clone())))
                    }
                    false => files.push((path, place.clone())),
                }
            }
        }
        Ok(files)
    }

    /// The value of a key, by its tables.
    #[must_use]
    pub fn get(&self, key: &[&str]) -> Option<&Said<Value>> {
        self.values
            .iter()
            .find(|(found, _)| found.iter().map(String::as_str).eq(key.iter().copied()))
            .map(|(_, said)| said)
    }

    /// A plugin's `true` or `false`.
    #[must_use]
    pub fn truth(&self, plugin: &str, key: &[&str]) -> Option<Said<bool>> {
        let said = self.plugin(plugin, key)?;
        let Value::Truth(truth) = said.value else { return None };
        Some(Said { value: truth, place: said.place.clone() })
    }

    /// A plugin's text or number.
    #[must_use]
    pub fn text(&self, plugin: &str, key: &[&str]) -> Option<Said<String>> {
        let said = self.plugin(plugin, key)?;
        let Value::Text(text) = &said.value else { return None };
        Some(Said { value: text.clone(), place: said.place.clone() })
    }

    /// A plugin's value.
    #[must_use]
    pub fn plugin(&self, plugin: &str, key: &[&str]) -> Option<&Said<Value>> {
        let whole: Vec<&str> = ["plugins", plugin].into_iter().chain(key.iter().copied()).collect();
        self.get(&whole)
    }

    /// A list at the top, such as `disabled_plugins`.
    #[must_use]
    pub fn list(&self, key: &[&str]) -> Option<Said<Vec<String>>> {
        let said = self.get(key)?;
        let Value::List(items) = &said.value else { return None };
        Some(Said { value: items.clone(), place: said.place.clone() })
    }

    /// Everything said of the OCI runtimes: `(handler, key, value)`.
    pub fn runtimes(&self) -> impl Iterator<Item = (&str, &str, &Said<Value>)> {
        self.values.iter().filter_map(|(key, said)| {
            match key.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["plugins", CRI, "containerd", "runtimes", _, ..] if key.len() > 5 => {
                    Some((key[4].as_str(), key[key.len() - 1].as_str(), said))
                }
                _ => None,
            }
        })
    }
}

impl Said<Value> {
    fn number(&self) -> Option<u32> {
        match &self.value {
            Value::Text(text) => text.parse().ok(),
            _ => None,
        }
    }
}

/// Of the CRI's old table what version 3 has in that of the images (containerd's `docs/cri/config.md`).
const IMAGE_KEYS: [&str; 7] = [
    "registry",
    "image_decryption",
    "max_concurrent_downloads",
    "image_pull_progress_timeout",
    "image_pull_with_sync_fs",
    "stats_collect_period",
    "sandbox_image",
];

/// What version 3 has left of the CRI's old table.
const STREAMING: [&str; 6] = [
    "disable_tcp_service",
    "stream_server_address",
    "stream_server_port",
    "stream_idle_timeout",
    "enable_tls_streaming",
    "x509_key_pair_streaming",
];

/// Whether a plugin of that name reads this key in a file of that version. containerd 2 takes the new tables also from a
/// file of version 2 (`configMigration` of its `plugins/cri/runtime`), before it nobody knows them.
fn reads(key: &[String], version: u32, is_one: bool) -> bool {
    match key.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["plugins", OLD_CRI, name, ..] if version >= 3 => STREAMING.contains(&name),
        ["plugins", CRI | IMAGES, ..] => !is_one,
        _ => true,
    }
}

/// Version 2 has the CRI's runtime half in the table of the whole CRI. In version 3 that table is another plugin's.
fn modern(mut key: Vec<String>, version: u32) -> Vec<String> {
    if version < 3 && key.len() > 2 && key[0] == "plugins" {
        match key[1].as_str() {
            OLD_CRI | "cri" => CRI.clone_into(&mut key[1]),
            "nri" => NRI.clone_into(&mut key[1]),
            _ => {}
        }
    }
    key
}

fn flatten(table: &DeTable<'_>, above: &mut Vec<String>, each: &mut dyn FnMut(Vec<String>, Value, usize)) {
    for (key, value) in table.iter() {
        above.push(key.get_ref().to_string());
        match value.get_ref() {
            DeValue::Table(table) => flatten(table, above, each),
            DeValue::Boolean(truth) => each(above.clone(), Value::Truth(*truth), key.span().start),
            DeValue::Array(items) => {
                let items = items.iter().filter_map(|item| scalar(item.get_ref())).collect();
                each(above.clone(), Value::List(items), key.span().start);
            }
            one => {
                if let Some(text) = scalar(one) {
                    each(above.clone(), Value::Text(text), key.span().start);
                }
            }
        }
        above.pop();
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        _ => None,
    }
}

fn malformed_toml(root: &Root, path: &str, text: &str, error: &toml::de::Error) -> DiscoverError {
    let line = error.span().and_then(|span| line_at(text, span.start)).unwrap_or(1);
    let found = text.lines().nth(line - 1).unwrap_or_default();
    let place = PathBuf::from(format!("{}:{line}", root.full(path).display()));
    malformed(place, found, "TOML as containerd reads it")
}

/// `-c FILE`, `--config FILE` or `--config=FILE`.
fn named_on(line: &[String]) -> Option<String> {
    let next = |at: usize| line.get(at + 1).cloned();
    let named = line.iter().enumerate().find_map(|(at, word)| match word.as_str() {
        "-c" | "--config" | "-config" => next(at),
        word => word.strip_prefix("--config=").or_else(|| word.strip_prefix("-c=")).map(str::to_owned),
    })?;
    Some(clean(Path::new(&named)))
}

#[cfg(test)]
mod tests;
