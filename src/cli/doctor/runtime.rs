//! Which containerd and which runc these are: by their own word on this machine; of a gathered one by containerd's log,
//! else by what RKE2 is known to bring.

use super::facts::Known;
use crate::discover::containerd::running_containerd;
use crate::discover::kubelet::{Distribution, Kind};
use crate::discover::{Place, Root, Said};
use crate::host::{RuntimeFeatures, answer};
use crate::nri::{Host, Version};
use std::path::{Path, PathBuf};

/// The runtime of the node.
#[derive(Debug)]
pub struct Runtime {
    /// containerd, and who says so; the error says why it is not known.
    pub containerd: Known<Said<Host>>,
    /// The memory policies that runc sets; the error says why they are not known.
    pub runc: Known<Said<RuntimeFeatures>>,
}

/// The first version of each RKE2 line that brings a containerd, newest first. From RKE2's release notes; what is older
/// than the last has 1.7.
const RKE2: [(Version, &str); 15] = [
    (version(1, 36, 2), "2.3.2"),
    (version(1, 36, 0), "2.2.2"),
    (version(1, 35, 3), "2.2.2"),
    (version(1, 35, 0), "2.1.0"),
    (version(1, 34, 6), "2.2.2"),
    (version(1, 34, 1), "2.1.0"),
    (version(1, 33, 10), "2.2.2"),
    (version(1, 33, 5), "2.1.0"),
    (version(1, 33, 0), "2.0.0"),
    // 1.32.13+rke2r2: of the first revision nothing is known.
    (version(1, 32, 14), "2.2.2"),
    (version(1, 32, 9), "2.1.0"),
    (version(1, 32, 2), "2.0.0"),
    (version(1, 32, 0), "1.7.0"),
    (version(1, 31, 13), "2.1.0"),
    (version(1, 31, 6), "2.0.0"),
];

const fn version(major: u32, minor: u32, patch: u32) -> Version {
    Version { major, minor, patch }
}

impl Runtime {
    /// Asks, or looks it up.
    pub fn read(root: &Root, distribution: Option<&Distribution>) -> Self {
        let asked =
            || asked(root, distribution).ok_or("no containerd runs that can be asked for its version");
        let containerd = match root.is_host() {
            true => asked().or_else(|why| written(root, distribution).ok_or(why)),
            false => {
                written(root, distribution).ok_or("a gathered node has no containerd to ask for its version")
            }
        };
        Self { containerd: containerd.map_err(str::to_owned), runc: runc(root, distribution) }
    }

    /// containerd's version, where it is known.
    pub fn version(&self) -> Option<Version> {
        self.containerd.as_ref().ok().and_then(|said| Version::parse(&said.value.runtime_version))
    }

    /// The NRI it speaks, where it is known.
    pub fn host(&self) -> Option<&Host> {
        self.containerd.as_ref().ok().map(|said| &said.value)
    }
}

/// `containerd github.com/containerd/containerd v1.7.27 05044ec…`
fn asked(root: &Root, distribution: Option<&Distribution>) -> Option<Said<Host>> {
    let process = running_containerd(root, distribution)?;
    let binary = PathBuf::from(format!("/proc/{}/exe", process.pid));
    let text = answer(&binary, "--version")?;
    let version = text.split_whitespace().find(|word| Version::parse(word).is_some())?;
    let place = Place::words(&format!("containerd --version of process {}", process.pid));
    Some(Said { value: Host::containerd(version), place })
}

fn written(root: &Root, distribution: Option<&Distribution>) -> Option<Said<Host>> {
    distribution.and_then(|found| logged(root, found).or_else(|| of_release(found)))
}

/// `msg="starting containerd" revision=… version=v2.1.4-k3s1`, of which the last counts.
fn logged(root: &Root, distribution: &Distribution) -> Option<Said<Host>> {
    let path = format!("{}/agent/containerd/containerd.log", distribution.data_dir);
    let text = root.last_lines(&path).ok().flatten()?;
    let line = text.lines().rev().find(|line| line.contains("starting containerd"))?;
    let version = line.split_whitespace().find_map(|word| word.strip_prefix("version="))?.trim_matches('"');
    Version::parse(version)?;
    Some(Said { value: Host::containerd(version), place: Place::file(&path) })
}

fn of_release(distribution: &Distribution) -> Option<Said<Host>> {
    let said = distribution.version.as_ref().filter(|_| distribution.kind == Kind::Rke2)?;
    let release = Version::parse(&said.value)?;
    let of_line = |(first, _): &&(Version, &str)| {
        (first.major, first.minor) == (release.major, release.minor) && *first <= release
    };
    let brought = RKE2.iter().find(of_line).map(|(_, containerd)| *containerd);
    let containerd = match brought {
        Some(containerd) => containerd,
        None if release < version(1, 32, 0) => "1.7.0",
        // A line that came after this table was written.
        None => return None,
    };
    let place = Place::words(&format!("what RKE2 {} brings, or a later one of its line", said.value));
    Some(Said { value: Host::containerd(containerd), place })
}

fn runc(root: &Root, distribution: Option<&Distribution>) -> Known<Said<RuntimeFeatures>> {
    if !root.is_host() {
        return Err("a gathered node has no runc to ask for its features".to_owned());
    }
    let own = distribution.map(|found| format!("/{}/bin/runc", found.data_dir));
    let usual = ["/usr/bin/runc", "/usr/sbin/runc", "/usr/local/sbin/runc", "/usr/local/bin/runc"];
    let binary = own.into_iter().chain(usual.map(str::to_owned)).find(|path| Path::new(path).is_file());
    let binary = binary.ok_or("no runc is found where runtimes keep it")?;
    // Nothing is remembered of a question that is asked by hand.
    let features = RuntimeFeatures::of(Path::new(&binary), Path::new("/proc/self/nowhere"));
    let place = Place::words(&format!("{binary} features"));
    features.map(|value| Said { value, place }).map_err(|error| error.to_string())
}
