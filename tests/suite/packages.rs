//! What the packages hold and what their scripts do, as far as can be seen without building them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use toml::Value;

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(project().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A file of a package: where it comes from and where it goes, both as they stand in Cargo.toml, without a leading '/'.
type Asset = (String, String);

fn metadata() -> Value {
    let manifest: Value = toml::from_str(&read("Cargo.toml")).unwrap();
    manifest["package"]["metadata"].clone()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}: expected a string")).trim_start_matches('/').to_owned()
}

fn deb() -> BTreeSet<Asset> {
    let list = metadata()["deb"]["assets"].as_array().unwrap().clone();
    list.iter().filter_map(Value::as_array).map(|asset| (text(&asset[0]), text(&asset[1]))).collect()
}

fn rpm() -> BTreeSet<Asset> {
    let list = metadata()["generate-rpm"]["assets"].as_array().unwrap().clone();
    list.iter().map(|asset| (text(&asset["source"]), text(&asset["dest"]))).collect()
}

/// Distributions keep these apart.
const PLACES: [(&str, &str); 2] = [
    ("usr/share/zsh/vendor-completions/", "usr/share/zsh/site-functions/"),
    ("usr/share/doc/maitred/licences.txt.gz", "usr/share/licenses/maitred/licences.txt.gz"),
];

#[test]
fn both_packages_hold_the_same_files() {
    let place = |(source, dest): Asset| {
        (source, PLACES.iter().fold(dest, |dest, (debian, fedora)| dest.replace(debian, fedora)))
    };
    let mut expected: BTreeSet<Asset> = deb().into_iter().map(place).collect();
    // In the DEB it stands in the copyright file.
    expected.insert(("LICENSE".into(), "usr/share/licenses/maitred/LICENSE".into()));
    assert_eq!(rpm(), expected);
}

#[test]
fn the_settings_of_the_owner_survive_an_upgrade() {
    let conf = metadata()["deb"]["conf-files"].as_array().unwrap().iter().map(text).collect::<BTreeSet<_>>();
    let noreplace = metadata()["generate-rpm"]["assets"].as_array().unwrap().clone();
    let noreplace =
        noreplace.iter().filter(|asset| asset.get("config").is_some_and(|kept| text(kept) == "noreplace"));
    assert_eq!(noreplace.map(|asset| text(&asset["dest"])).collect::<BTreeSet<_>>(), conf);
    let below_etc = deb().into_iter().map(|(_, dest)| dest).filter(|dest| dest.starts_with("etc/"));
    assert_eq!(below_etc.collect::<BTreeSet<_>>(), conf);
}

#[test]
fn what_is_packed_is_there_and_every_hook_is() {
    let made = |source: &str| source.starts_with("target/");
    for (source, _) in deb().into_iter().filter(|(source, _)| !made(source)) {
        let folder = source.trim_end_matches("*.json").trim_end_matches('*');
        assert!(project().join(folder).exists(), "{source}: not in the tree");
    }
    let packed: Vec<String> = deb().into_iter().map(|(source, _)| source).collect();
    for folder in std::fs::read_dir(project().join("hooks")).unwrap() {
        let name = folder.unwrap().file_name().into_string().unwrap();
        let is_packed = |source: &String| source.starts_with(&format!("hooks/{name}"));
        assert!(packed.iter().any(is_packed), "hooks/{name}: in no package");
    }
}

#[test]
fn a_package_switches_nothing_on() {
    for (source, dest) in deb().into_iter().chain(rpm()) {
        // A leftover there is a second plugin; a hook there is in front of every container.
        let active = ["opt/nri", "hooks.d/", "etc/containers", "etc/containerd", "etc/systemd"];
        assert!(!active.iter().any(|place| dest.contains(place)), "{source} goes to {dest}");
    }
    assert!(read("packaging/config.toml").lines().any(|line| line == r#"mode = "audit""#));
}

#[test]
fn the_unit_grants_what_the_daemon_keeps_and_what_it_needs_to_give_up_the_rest() {
    let unit = read("packaging/systemd/maitred.service");
    let granted = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let kept = maitred::host::privileges::DAEMON.iter().map(ToString::to_string);
    let expected: BTreeSet<String> = kept.chain(["CAP_SETPCAP".to_owned()]).collect();
    assert_eq!(granted.split(' ').map(str::to_owned).collect::<BTreeSet<_>>(), expected);
    // What a daemon ends with that makes room for one of containerd's: tests/suite/nri/process.rs.
    assert!(unit.contains("\nSuccessExitStatus=4 SIGUSR1\nRestartPreventExitStatus=4 SIGUSR1\n"));
    for line in ["Type=notify", "Restart=always", "StartLimitIntervalSec=0", "NoNewPrivileges=yes"] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
    assert!(unit.lines().any(|line| line.starts_with("WatchdogSec=")));
    assert!(unit.contains("ConditionPathExistsGlob=!/opt/nri/plugins/*-maitred"), "never both ways at once");
}

/// Where containerd's shims keep what they know of a container, below containerd's own state.
const TASKS: &str = "io.containerd.runtime.v2.task";

/// What `in-use` says of a root with these files.
fn in_use(files: &[(&str, &str)]) -> Output {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match text.strip_prefix("-> ") {
            Some(target) => std::os::unix::fs::symlink(target, &path).unwrap(),
            None => std::fs::write(&path, text).unwrap(),
        }
    }
    Command::new("sh").arg(project().join("packaging/in-use.sh")).arg(root.path()).output().unwrap()
}

#[test]
fn what_leads_to_maitred_is_found_wherever_it_stands() {
    let hook = read("hooks/containers/maitred.json");
    let docker = read("hooks/docker/daemon.json");
    let class = read("hooks/containerd/runtime-class.toml");
    let old_class = read("hooks/containerd/runtime-class-v2.toml");
    let uses: [(&str, &str); 13] = [
        ("etc/containers/oci/hooks.d/maitred.json", &hook),
        ("usr/share/containers/oci/hooks.d/90-seats.json", &hook),
        ("etc/docker/daemon.json", &docker),
        ("etc/containerd/config.toml", &class),
        ("etc/containerd/conf.d/50-maitred.toml", &class),
        ("var/lib/rancher/rke2/agent/etc/containerd/config-v3.toml.tmpl", &class),
        ("var/lib/rancher/rke2/agent/etc/containerd/config.toml.tmpl", &old_class),
        (
            "etc/containerd/base.json",
            r#"{"hooks":{"createRuntime":[{"path":"/usr/bin/maitred","args":["maitred","hook"]}]}}"#,
        ),
        ("etc/containers/containers.conf", "[engine.runtimes]\nmaitred = [\"/usr/bin/maitred-runtime\"]\n"),
        (
            "etc/crio/crio.conf.d/10-maitred.conf",
            "[crio.runtime.runtimes.m]\nruntime_path = \"/usr/bin/maitred-runtime\"\n",
        ),
        ("opt/nri/plugins/90-maitred", "-> /usr/bin/maitred"),
        (&format!("run/containerd/{TASKS}/k8s.io/c1/runtime"), "/usr/local/sbin/maitred-runtime"),
        (&format!("run/k3s/containerd/{TASKS}/k8s.io/c1/runtime"), "/usr/bin/maitred-runtime"),
    ];
    for (path, text) in uses {
        let found = in_use(&[(path, text)]);
        let said = String::from_utf8(found.stdout).unwrap();
        assert_eq!(found.status.code(), Some(1), "{path}: {said}");
        assert!(said.lines().count() == 1 && said.contains(path), "{path}: {said}");
    }
}

/// Other directories than the usual ones, files that are named by others, and a link to the link.
#[test]
fn what_leads_to_maitred_is_found_where_the_owners_files_say() {
    let class = read("hooks/containerd/runtime-class.toml");
    let rke2 = "node-label: [a=b]\ndata-dir: \"/data/rke2\" # the large disk\n";
    let main = |line: &str| format!("version = 3\n{line}\n");
    let cases: [(&str, &str, &str, &str); 6] = [
        ("etc/rancher/rke2/config.yaml", rke2, "data/rke2/agent/etc/containerd/config-v3.toml.tmpl", &class),
        (
            "etc/rancher/k3s/config.yaml.d/1.yaml",
            "data-dir: /k\n",
            "k/agent/etc/containerd/config.toml",
            &class,
        ),
        (
            "etc/containerd/config.toml",
            &main("imports = [\"/srv/conf.d/*.toml\"]"),
            "srv/conf.d/1.toml",
            &class,
        ),
        (
            "etc/containerd/config.toml",
            &main("[x.runtimes.m]\nbase_runtime_spec = '/srv/base.json'"),
            "srv/base.json",
            r#"{"hooks":{"createRuntime":[{"path":"/usr/bin/maitred"}]}}"#,
        ),
        (
            "etc/containerd/config.toml",
            &main("[plugins.'io.containerd.nri.v1.nri']\nplugin_path = '/srv/plugins' # ours"),
            "srv/plugins/10-seats",
            "-> /usr/bin/maitred",
        ),
        (
            "etc/crio/crio.conf",
            "",
            "etc/crio/crio.conf.d/x.conf.bak",
            "runtime_path = \"/usr/bin/maitred-runtime\"\n",
        ),
    ];
    for (named, text, path, there) in cases {
        let found = in_use(&[(named, text), (path, there)]);
        let said = String::from_utf8(found.stdout).unwrap();
        assert!(found.status.code() == Some(1) && said.lines().count() == 1, "{path}: {said}");
        assert!(said.contains(path), "{path}: {said}");
    }
    let twice = [("opt/nri/plugins/10-a", "-> ../../../srv/b"), ("srv/b", "-> /usr/bin/maitred")];
    assert!(String::from_utf8(in_use(&twice).stdout).unwrap().contains("opt/nri/plugins/10-a: a plugin"));
}

#[test]
fn a_container_of_podman_behind_the_wrapper_is_found_and_none_that_calls_itself_so() {
    let arguments = "/usr/bin/conmon\0-c\0c1\0-r\0/usr/local/sbin/maitred-runtime\0-b\0/x\0";
    let conmon =
        [("proc/7/cmdline", arguments), ("proc/7/comm", "conmon\n"), ("proc/self/ns/pid", "-> pid:[1]")];
    let with = |namespace, cgroup| {
        let more = [("proc/7/ns/pid", namespace), ("proc/7/cgroup", cgroup)];
        String::from_utf8(in_use(&[&conmon[..], &more].concat()).stdout).unwrap()
    };
    let said = with("-> pid:[1]", "0::/machine.slice/libpod-conmon-c1.scope\n");
    assert!(said.contains("proc/7: a container"), "{said}");
    assert_eq!(with("-> pid:[2]", "0::/machine.slice/c1.scope\n"), "");
    assert_eq!(with("-> pid:[1]", "0::/kubepods.slice/kubepods-pod1.slice/c1\n"), "", "a pod with hostPID");
}

#[test]
fn what_only_mentions_it_is_no_use() {
    let others: [(&str, &str); 9] = [
        (
            "etc/containerd/config.toml",
            "version = 3\n  # BinaryName = \"/usr/bin/maitred-runtime\"\nx = 1 # was \"/usr/bin/maitred-runtime\"\n",
        ),
        ("etc/containers/oci/hooks.d/maitred.json.rpmsave", "/usr/bin/maitred "),
        ("etc/docker/daemon.json", "{}"),
        ("etc/containers/oci/hooks.d/other.json", r#"{"hook":{"path":"/usr/bin/maitredish"}}"#),
        ("opt/nri/plugins/10-other", "-> /usr/bin/other"),
        ("etc/crio/crio.conf.d/readme", ""),
        (&format!("run/containerd/{TASKS}/k8s.io/c1/runtime"), "/usr/bin/runc"),
        // The arguments of somebody who looks at it.
        ("proc/7/cmdline", "less\0/usr/bin/maitred-runtime\0"),
        ("proc/7/comm", "less\n"),
    ];
    let found = in_use(&others);
    assert_eq!(String::from_utf8(found.stdout).unwrap(), "");
    assert_eq!((found.status.code(), in_use(&[]).status.code()), (Some(0), Some(0)));
}

#[test]
fn the_scripts_are_sound_and_leave_the_runtimes_alone() {
    let scripts = [
        "deb/postinst",
        "deb/prerm",
        "deb/postrm",
        "rpm/post.sh",
        "rpm/preun.sh",
        "rpm/postun.sh",
        "in-use.sh",
    ];
    for script in scripts.map(|name| PathBuf::from("packaging").join(name)) {
        let parsed = Command::new("sh").arg("-n").arg(project().join(&script)).status().unwrap();
        assert!(parsed.success(), "{}", script.display());
        let words = read(script.to_str().unwrap());
        let commands =
            words.lines().map(str::trim).filter(|line| !line.starts_with('#') && !line.contains("echo"));
        for line in commands {
            let forbidden = ["daemon-reload", "rke2", "containerd.service", "curl", "wget", "apt-get", "dnf"];
            assert!(!forbidden.iter().any(|word| line.contains(word)), "{}: {line}", script.display());
        }
    }
}
