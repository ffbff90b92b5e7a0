//! Whether the machine may have changed: a few looks at what changes when a driver is loaded, MIG is set up, a CDI spec
//! is written, or a CPU goes or comes back. The kernel's own `proc` gives new times at every look, so there it is names
//! that count.

use super::{NvmlLibrary, Options, Root, cdi, nvml};
use std::path::PathBuf;
use std::time::SystemTime;

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sign {
    names: Vec<(String, Vec<String>)>,
    files: Vec<(PathBuf, Option<SystemTime>)>,
}

const GPUS: &str = "proc/driver/nvidia/gpus";
const CAPABILITIES: &str = "proc/driver/nvidia/capabilities";
const ONLINE: [&str; 2] = ["sys/devices/system/cpu/online", "sys/devices/system/node/online"];
const NODES: [&str; 2] = ["dev/nvidiactl", "dev/nvidia0"];

/// A look. What cannot be looked at is as good as absent.
#[must_use]
pub fn sign(root: &Root, options: &Options) -> Sign {
    let mut sign = Sign::default();
    for list in ONLINE {
        let online = root.read(list).ok().flatten();
        sign.names.push((list.to_owned(), online.into_iter().collect()));
    }
    sign.list(root, GPUS);
    for gpu in sign.list(root, CAPABILITIES) {
        let parts = format!("{CAPABILITIES}/{gpu}/mig");
        for part in sign.list(root, &parts) {
            sign.list(root, &format!("{parts}/{part}"));
        }
    }
    for dir in cdi::DIRS {
        for file in sign.list(root, dir) {
            let path = root.place(&format!("{dir}/{file}")).ok().flatten();
            sign.files.extend(path.map(|path| (path.clone(), modified(&path))));
        }
    }
    for node in NODES {
        let there = root.place(node).ok().flatten().is_some_and(|path| path.exists());
        sign.names.push((node.to_owned(), there.then(String::new).into_iter().collect()));
    }
    if let NvmlLibrary::DriverRoot(driver_root) = &options.nvml {
        sign.files
            .extend(nvml::libraries(driver_root).into_iter().map(|path| (path.clone(), modified(&path))));
    }
    sign
}

impl Sign {
    /// Notes the names in a directory.
    fn list(&mut self, root: &Root, dir: &str) -> Vec<String> {
        let names = root.names(dir).ok().flatten().unwrap_or_default();
        self.names.push((dir.to_owned(), names.clone()));
        names
    }
}

fn modified(path: &std::path::Path) -> Option<SystemTime> {
    path.metadata().and_then(|about| about.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_driver_a_mig_device_a_cdi_spec_and_a_cpu_are_seen_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("sys")).unwrap();
        let root = Root::open(dir.path()).unwrap();
        let driver = tempfile::tempdir().unwrap();
        let options = Options { nvml: NvmlLibrary::DriverRoot(driver.path().into()) };
        let look = || sign(&root, &options);
        let write = |path: std::path::PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let mut last = look();
        assert_eq!(last, look(), "nothing has changed");
        for path in [
            "proc/driver/nvidia/gpus/0000:21:00.0/information",
            "proc/driver/nvidia/capabilities/gpu0/mig/gi1/ci0/access",
            "dev/nvidiactl",
            "var/run/cdi/nvidia.yaml",
            "sys/devices/system/cpu/online",
            "sys/devices/system/node/online",
        ] {
            write(dir.path().join(path), "x");
            let now = look();
            assert_ne!(now, last, "{path}");
            last = now;
        }
        let spec = fs::File::open(dir.path().join("var/run/cdi/nvidia.yaml")).unwrap();
        spec.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_ne!(look(), last, "a spec that is written in place");
        last = look();
        write(driver.path().join("usr/lib64/libnvidia-ml.so.1"), "");
        assert_ne!(look(), last, "the driver's root is mounted");
        last = look();
        write(dir.path().join("proc/driver/other"), "x");
        assert_eq!(look(), last);
    }
}
