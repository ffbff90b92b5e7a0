//! Hooks and the wrapper as their callers run them: bundles in temporary directories, a machine of plain files, a
//! runtime that is a shell script.

mod cgroup;
mod gpus;
mod hook;
mod neighbours;
mod race;
mod reading;
mod settle;
mod together;
mod wrapper;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The gathered machine: two sockets, four nodes, one core of two threads a node; the first is kept for the system.
pub fn machine() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines/two-sockets-four-nodes")
}

/// A node of its own: store, configuration, log, bundles, and a runtime.
pub struct Node {
    dir: tempfile::TempDir,
    pub sysroot: PathBuf,
}

/// What the runtime of these tests does: says with what it was called, then what `$RUNTIME` says.
const RUNTIME: &str = "#!/bin/sh\n[ \"$1\" != features ] || exit 1\necho \"$$ $*\" >>\"$(dirname \"$0\")/calls\"\neval \"$RUNTIME\"\n";

impl Node {
    pub fn new(config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let node = Self { dir, sysroot: machine() };
        let script = node.path("runtime");
        fs::write(&script, RUNTIME).unwrap();
        fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        node.configure(config);
        node
    }

    pub fn configure(&self, config: &str) {
        let runtime = self.path("runtime").display().to_string();
        fs::write(
            self.path("config.toml"),
            format!("version = 1\n{config}\n[runtime]\npath = \"{runtime}\"\n\
             # The machine of these tests has nodes that the one they run on may not have.\n[memory]\ndelivery = \"cpuset\"\n"),
        )
        .unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// A bundle with this configuration.
    pub fn bundle(&self, name: &str, config: &str) -> PathBuf {
        let bundle = self.path(name);
        fs::create_dir_all(&bundle).unwrap();
        fs::write(bundle.join("config.json"), config).unwrap();
        bundle
    }

    pub fn config_of(&self, name: &str) -> serde_json::Value {
        serde_json::from_str(&self.read(&format!("{name}/config.json"))).unwrap()
    }

    /// The wrapper with these arguments.
    pub fn wrapper(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("maitred"));
        command.arg("runtime").args(arguments);
        command
            .env("MAITRED_CONFIG", self.path("config.toml"))
            .env("MAITRED_STORE", self.path("store"))
            .env("MAITRED_SYSROOT", &self.sysroot)
            .env("MAITRED_HOOK_LOG", self.path("hook.jsonl"))
            .env_remove("MAITRED_LOG")
            .stdin(Stdio::null());
        command
    }

    /// `create` of a bundle, to its end.
    pub fn create(&self, name: &str) -> Output {
        let bundle = self.path(name).display().to_string();
        self.wrapper(&["create", "--bundle", &bundle, name]).output().unwrap()
    }

    /// A hook's stage, with this on its standard input.
    pub fn hook(&self, stage: &str, input: &str) -> Output {
        self.start_hook(stage, input).wait_with_output().unwrap()
    }

    /// The same, not waited for.
    pub fn start_hook(&self, stage: &str, input: &str) -> Child {
        self.start_hook_with(stage, input, &[])
    }

    /// A hook's stage, with this in its environment.
    pub fn hook_with(&self, stage: &str, input: &str, environment: &[(&str, &str)]) -> Output {
        self.start_hook_with(stage, input, environment).wait_with_output().unwrap()
    }

    fn start_hook_with(&self, stage: &str, input: &str, environment: &[(&str, &str)]) -> Child {
        use std::io::Write;
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("maitred"));
        command.args(["hook", stage]).args(self.hook_places()).envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child
    }

    /// Where a hook of this node finds things.
    pub fn hook_places(&self) -> Vec<OsString> {
        let places = [
            ("--config", self.path("config.toml")),
            ("--store", self.path("store")),
            ("--log", self.path("hook.jsonl")),
            ("--sysroot", self.sysroot.clone()),
        ];
        places.into_iter().flat_map(|(option, path)| [option.into(), path.into_os_string()]).collect()
    }

    /// Runs one of maitred's own verbs on the store.
    pub fn switch(&self, verb: &str) {
        let store = self.path("store");
        let status = Command::new(assert_cmd::cargo::cargo_bin("maitred"))
            .args([verb, "--store"])
            .arg(store)
            .stdout(Stdio::null())
            .status();
        assert!(status.unwrap().success());
    }

    /// The names of all allocation files.
    pub fn allocations(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("store/allocations"));
        let mut names: Vec<String> = entries
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort();
        names
    }

    /// The log's lines about verdicts.
    pub fn verdicts(&self) -> Vec<serde_json::Value> {
        let log = self.read("hook.jsonl");
        let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.filter(|line| line["message"] == "verdict").collect()
    }
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A configuration with this many whole CPUs and 256 MiB, in a spelling of its own.
pub fn whole(cpus: u64) -> String {
    format!(
        "{{\n  \"ociVersion\" : \"1.2.0\",\n  \"process\":{{\"args\":[\"sh\"],\"env\":[\"A=\\u0041\"],\"x\":1e3}},\n  \
         \"linux\":{{\"resources\":{{\"cpu\":{{\"quota\":{},\"period\":100000}},\"memory\":{{\"limit\":268435456}}}},\
         \"seccomp\":{{\"defaultAction\":\"SCMP_ACT_ERRNO\", \"n\":98765432109876543210}}}}\n}}\n",
        cpus * 100_000
    )
}
