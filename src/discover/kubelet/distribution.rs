//! RKE2 and k3s: what their own configuration says the kubelet is to be started with.
//!
//! `config.yaml`, then the files of `config.yaml.d` in the order of their names. A key in a later file replaces what
//! earlier ones said of it; with a `+` behind it, it adds to that (k3s, `pkg/configfilearg`).

use crate::discover::place::line_of;
use crate::discover::yaml::{mapping, words};
use crate::discover::{DiscoverError, Place, Root, Said};
use std::collections::BTreeMap;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// RKE2.
    Rke2,
    /// k3s.
    K3s,
}

impl Kind {
    /// Both, the likelier first.
    pub const ALL: [Self; 2] = [Self::Rke2, Self::K3s];

    /// Its name, which is that of its directories too.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rke2 => "rke2",
            Self::K3s => "k3s",
        }
    }

    /// Where its configuration lies.
    #[must_use]
    pub fn config_dir(self) -> String {
        format!("etc/rancher/{}", self.name())
    }

    /// Where it keeps its data unless told otherwise.
    #[must_use]
    pub fn data_dir(self) -> String {
        format!("var/lib/rancher/{}", self.name())
    }
}

/// What a distribution was told.
#[derive(Debug)]
pub struct Distribution {
    /// Which.
    pub kind: Kind,
    /// Its configuration's main file, which may be absent.
    pub config: String,
    /// Where it keeps its data, without the first slash.
    pub data_dir: String,
    /// `v1.31.6+rke2r1`, as the directory of its binaries is called; `None` where nothing tells.
    pub version: Option<Said<String>>,
    /// What it says, by key; each value with its place.
    values: BTreeMap<String, Vec<Said<String>>>,
    /// Files that could not be read or understood. It does not start with these.
    pub unread: Vec<DiscoverError>,
}

impl Distribution {
    /// The one whose directories are there; `None` is neither.
    #[must_use]
    pub fn find(root: &Root) -> Option<Self> {
        let is_there = |dir: &str| matches!(root.names(dir), Ok(Some(names)) if !names.is_empty());
        let of =
            |kind: &Kind| is_there(&kind.config_dir()) || is_there(&format!("{}/agent", kind.data_dir()));
        Kind::ALL.into_iter().find(of).map(|kind| Self::read(root, kind))
    }

    fn read(root: &Root, kind: Kind) -> Self {
        let config =
            named_by_environment(root, kind).unwrap_or_else(|| format!("{}/config.yaml", kind.config_dir()));
        let mut found = Self {
            kind,
            data_dir: kind.data_dir(),
            version: None,
            values: BTreeMap::new(),
            unread: Vec::new(),
            config,
        };
        let dropped = found.dropped(root);
        for path in [found.config.clone()].into_iter().chain(dropped) {
            match mapping(root, &path) {
                Ok(None) => {}
                Ok(Some((keys, text))) => {
                    keys.iter().for_each(|(key, value)| found.take(&path, &text, key, &words(value)));
                }
                Err(error) => found.unread.push(error),
            }
        }
        if let Some(dir) = found.last("data-dir").map(|dir| dir.value.trim_matches('/').to_owned()) {
            found.data_dir = dir;
        }
        found.version = version(root, &found.data_dir);
        found
    }

    fn dropped(&mut self, root: &Root) -> Vec<String> {
        let dir = format!("{}.d", self.config);
        let mut names = root.names(&dir).unwrap_or_else(|error| {
            self.unread.push(error);
            None
        });
        let names = names.get_or_insert_default();
        names.sort();
        let is_yaml = |name: &&String| name.ends_with(".yaml") || name.ends_with(".yml");
        names.iter().filter(is_yaml).map(|name| format!("{dir}/{name}")).collect()
    }

    fn take(&mut self, path: &str, text: &str, key: &str, words: &[String]) {
        let (bare, adds) = key.strip_suffix('+').map_or((key, false), |bare| (bare, true));
        let place = |word: &String| {
            // Something that an alias stands for is found where its key is.
            let line = line_of(text, word).filter(|_| !word.is_empty()).or_else(|| line_of(text, bare));
            Place::file(path).at(line)
        };
        let said = words.iter().map(|word| Said { value: word.clone(), place: place(word) });
        let values = self.values.entry(bare.to_owned()).or_default();
        if !adds {
            values.clear();
        }
        values.extend(said);
    }

    /// All that is said of a key.
    #[must_use]
    pub fn all(&self, key: &str) -> &[Said<String>] {
        self.values.get(key).map_or(&[], Vec::as_slice)
    }

    /// The last that is said of a key.
    #[must_use]
    pub fn last(&self, key: &str) -> Option<&Said<String>> {
        self.all(key).last()
    }

    /// The unit that runs its agent: a server's where only that is known.
    #[must_use]
    pub fn unit(&self, root: &Root) -> String {
        let name = self.kind.name();
        let is_server = matches!(root.names(&format!("{}/server", self.data_dir)), Ok(Some(_)));
        match (self.kind, is_server) {
            (Kind::Rke2, true) => format!("{name}-server"),
            (Kind::K3s, true) => name.to_owned(),
            _ => format!("{name}-agent"),
        }
    }
}

/// The unit's environment may name another file.
fn named_by_environment(root: &Root, kind: Kind) -> Option<String> {
    let name = kind.name();
    let key = format!("{}_CONFIG_FILE=", name.to_uppercase());
    let files = ["agent", "server"]
        .iter()
        .flat_map(|role| ["etc/default", "etc/sysconfig"].map(|dir| format!("{dir}/{name}-{role}")));
    files.filter_map(|file| root.read(&file).ok().flatten()).find_map(|text| {
        let said =
            text.lines().rev().find_map(|line| line.trim().strip_prefix(key.as_str()).map(str::to_owned));
        said.map(|path| path.trim_matches(['"', '\'']).trim_start_matches('/').to_owned())
    })
}

/// RKE2's `bin` is a link into `data/v1.31.6-rke2r1-0123456789ab`, whose name cannot have a `+`.
fn version(root: &Root, data_dir: &str) -> Option<Said<String>> {
    let real = root.real(&format!("{data_dir}/bin")).ok().flatten();
    let linked = real.as_deref().and_then(|path| path.parent()?.file_name()?.to_str());
    let release = linked.and_then(release).or_else(|| {
        let names = root.names(&format!("{data_dir}/data")).ok().flatten().unwrap_or_default();
        let mut releases: Vec<String> = names.iter().filter_map(|name| release(name)).collect();
        releases.dedup();
        // Of several only the link says which.
        releases.pop().filter(|_| releases.is_empty())
    })?;
    Some(Said { value: release, place: Place::file(&format!("{data_dir}/bin")) })
}

fn release(dir: &str) -> Option<String> {
    let mut parts = dir.splitn(3, '-');
    let (version, revision) = (parts.next()?, parts.next()?);
    let is_release =
        version.starts_with('v') && ["rke2", "k3s"].iter().any(|name| revision.starts_with(name));
    is_release.then(|| format!("{version}+{revision}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn found(files: &[(&str, &str)]) -> Option<Distribution> {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match text.strip_prefix("-> ") {
                Some(target) => symlink(target, path).unwrap(),
                None => fs::write(path, text).unwrap(),
            }
        }
        Distribution::find(&Root::gathered(dir.path()).unwrap())
    }

    fn args(found: &Distribution) -> Vec<String> {
        found.all("kubelet-arg").iter().map(|said| format!("{} {}", said.place, said.value)).collect()
    }

    const MAIN: &str = "etc/rancher/rke2/config.yaml";

    #[test]
    fn a_later_file_replaces_and_a_plus_adds() {
        let main = (MAIN, "# a node\nkubelet-arg:\n  - \"a=1\"\n  - b=2\nnode-label: x=y\n");
        let adding = ("etc/rancher/rke2/config.yaml.d/10-more.yaml", "kubelet-arg+: c=3\n");
        let replacing = ("etc/rancher/rke2/config.yaml.d/20-other.yml", "kubelet-arg:\n- d=4\n");
        let ignored = ("etc/rancher/rke2/config.yaml.d/30-x.yaml.bak", "kubelet-arg: e=5\n");
        let two = found(&[main, adding, ignored]).unwrap();
        assert_eq!(
            args(&two),
            [
                format!("/{MAIN}:3 a=1"),
                format!("/{MAIN}:4 b=2"),
                "/etc/rancher/rke2/config.yaml.d/10-more.yaml:1 c=3".to_owned()
            ]
        );
        let three = found(&[main, adding, replacing]).unwrap();
        assert_eq!(args(&three), ["/etc/rancher/rke2/config.yaml.d/20-other.yml:2 d=4"]);
        assert_eq!(three.last("node-label").unwrap().value, "x=y");
    }

    #[test]
    fn what_yaml_allows_is_understood() {
        let text = "\u{feff}x: &args [\"max-pods=200\", 'reserved-cpus=0']\r\nkubelet-arg: [a=0]\r\nkubelet-arg: *args\r\nport: 9345\r\nnothing:\r\n";
        let read = found(&[(MAIN, text)]).unwrap();
        assert_eq!(args(&read), [format!("/{MAIN}:1 max-pods=200"), format!("/{MAIN}:1 reserved-cpus=0")]);
        assert_eq!(read.last("port").unwrap().value, "9345");
        assert!(read.unread.is_empty() && read.last("nothing").is_none());
        assert!(found(&[(MAIN, "")]).unwrap().unread.is_empty());
        for bad in ["- a\n", "a: [", "{{ template }}\n"] {
            assert_eq!(found(&[(MAIN, bad)]).unwrap().unread.len(), 1, "{bad:?}");
        }
    }

    #[test]
    fn environment_data_directory_and_version_are_found() {
        let environment = ("etc/sysconfig/rke2-agent", "X=1\nRKE2_CONFIG_FILE=\"/etc/node.yaml\"\n");
        let files = [
            ("etc/rancher/rke2/config.yaml", "kubelet-arg: a=1\n"),
            environment,
            ("etc/node.yaml", "data-dir: /data/rke2/\n"),
            ("data/rke2/data/v1.31.6-rke2r1-0123456789ab/bin/x", ""),
            ("data/rke2/bin", "-> /data/rke2/data/v1.31.6-rke2r1-0123456789ab/bin"),
        ];
        let read = found(&files).unwrap();
        assert_eq!((read.kind, read.data_dir.as_str()), (Kind::Rke2, "data/rke2"));
        assert_eq!(read.version.unwrap().value, "v1.31.6+rke2r1");
        let two = found(&[
            ("var/lib/rancher/k3s/agent/x", ""),
            ("var/lib/rancher/k3s/data/v1.33.1-k3s1-ab/x", ""),
            ("var/lib/rancher/k3s/data/v1.33.2-k3s1-ab/x", ""),
        ]);
        assert!(two.unwrap().version.is_none(), "nobody says which of two");
        assert!(found(&[("etc/rancher/node/password", "x")]).is_none());
    }
}
