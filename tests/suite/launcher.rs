//! The launcher as a container's runtime starts it: alone, in front of a command.

// Filters, roots and ids of a process are set between fork and exec, which std calls unsafe.
#![allow(unsafe_code)]

use maitred::host::launcher::PROGRAM;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory that anybody may enter, with the launcher in it.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::set_permissions(place.0.path(), Permissions::from_mode(0o755)).unwrap();
        place.file("new", PROGRAM, 0o555);
        // By rename: a file that another test's fork has open for writing cannot be run.
        std::fs::rename(place.path("new"), place.path("launcher")).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, content: &[u8], mode: u32) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }

    fn launch(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.path("launcher"));
        command.args(words);
        command
    }
}

fn said(output: &Output) -> (i32, String) {
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).trim_end().to_owned())
}

fn has_numa() -> bool {
    Path::new("/proc/self/numa_maps").exists()
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

#[test]
fn it_is_a_few_kilobytes_and_needs_nothing_to_be_loaded() {
    assert!(PROGRAM.len() < 16 << 10, "{} bytes", PROGRAM.len());
    let word = |at: usize| usize::from(u16::from_le_bytes([PROGRAM[at], PROGRAM[at + 1]]));
    // Elf64_Ehdr: e_phoff at 32, e_phentsize at 54, e_phnum at 56; p_type begins a program header.
    let (first, size, count) = (word(32), word(54), word(56));
    let kinds: Vec<usize> = (0..count).map(|number| word(first + number * size)).collect();
    let (dynamic, interpreter) = (2, 3);
    assert!(kinds.contains(&1) && !kinds.contains(&dynamic) && !kinds.contains(&interpreter), "{kinds:?}");
}

#[test]
fn the_command_starts_with_the_policy() {
    if !has_numa() {
        return eprintln!("skipped: this kernel has no NUMA");
    }
    let place = Place::new();
    for (policy, shown) in [
        ("bind:0", "bind=static:0"),
        ("preferred:0", "prefer=static:0"),
        ("interleave:0-0", "interleave=static:0"),
        ("local", "local"),
        ("none", "default"),
    ] {
        let output = place.launch(&[policy, "--", "cat", "/proc/self/numa_maps"]).output().unwrap();
        let maps = String::from_utf8(output.stdout).unwrap();
        let policies: Vec<_> = maps.lines().filter_map(|line| line.split(' ').nth(1)).collect();
        assert!(!policies.is_empty() && policies.iter().all(|found| *found == shown), "{policy}: {maps}");
    }
}

#[test]
fn arguments_environment_and_directory_are_the_commands_own() {
    let place = Place::new();
    let script = r#"echo "$0|$1|$2|$FOO|$(pwd)|$$"; exit 7"#;
    let mut command = place.launch(&["local", "--", "sh", "-c", script, "zero", "one two", ""]);
    let child =
        command.env("FOO", "a=b").current_dir("/proc").stdout(std::process::Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("zero|one two||a=b|/proc|{pid}\n"));
}

#[test]
fn the_command_is_searched_as_a_shell_does() {
    let place = Place::new();
    place.file("bin/tool", b"#!/bin/sh\necho found\n", 0o755);
    place.file("closed/tool", b"#!/bin/sh\n", 0o644);
    place.file("closed/only", b"#!/bin/sh\n", 0o644);
    let path = format!("/nowhere:{}:{}", place.path("closed").display(), place.path("bin").display());
    let run = |command: &str, path: Option<&str>| {
        let mut launch = place.launch(&["local", "--", command]);
        match path {
            Some(path) => launch.env("PATH", path),
            None => launch.env_remove("PATH"),
        };
        launch.current_dir(place.path("bin")).output().unwrap()
    };
    assert_eq!(String::from_utf8(run("tool", Some(&path)).stdout).unwrap(), "found\n");
    assert_eq!(run("./tool", Some("/nowhere")).status.code(), Some(0), "with a slash PATH does not count");
    assert_eq!(run("true", None).status.code(), Some(0), "there is a default");
    assert_eq!(said(&run("only", Some(&path))), (126, "maitred launcher: cannot run only: EACCES".into()));
    assert_eq!(said(&run("none", Some(&path))), (127, "maitred launcher: cannot run none: ENOENT".into()));
    let long = "x".repeat(5000);
    assert!(said(&run(&long, Some(&path))).1.ends_with('x'), "a line that is too long is cut");
}

#[test]
fn what_is_not_understood_is_said() {
    let place = Place::new();
    for words in [
        &[] as &[&str],
        &["bind"],
        &["bind:", "--", "true"],
        &["bind:x", "--", "true"],
        &["bind:1-0", "--", "true"],
        &["bind:1024", "--", "true"],
        &["bound:0", "--", "true"],
        &["bind:0"],
        &["bind:0", "--"],
        &["bind:0", "true"],
        &["bind:0", "prove:3:1:0", "--", "true"],
        &["bind:0", "prove:2048:99999999999999999999:0", "--", "true"],
        &["bind:0", "prove:2048:18446744073709551615:0", "--", "true"],
    ] {
        let (status, text) = said(&place.launch(words).output().unwrap());
        assert_eq!(status, 123, "{words:?}: {text}");
        assert!(text.starts_with("maitred launcher: usage: launcher MODE:NODES|local|none"), "{text}");
    }
}

#[test]
fn pages_that_are_not_there_end_it_before_the_command() {
    let free = std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    if !has_numa() || free.is_ok_and(|free| free.trim() != "0") {
        return eprintln!("skipped: there are huge pages here, or no NUMA");
    }
    let place = Place::new();
    let output = place.launch(&["bind:0", "prove:2048:4:0", "--", "echo", "ran"]).output().unwrap();
    let (status, text) = said(&output);
    assert_eq!((status, output.stdout.as_slice()), (122, &b""[..]));
    assert_eq!(
        text,
        "maitred launcher: the promised huge pages are not there (prove:2048:4:0): mmap: ENOMEM"
    );
}

#[test]
fn a_policy_the_kernel_refuses_ends_it_before_the_command() {
    if !has_numa() {
        return eprintln!("skipped: this kernel has no NUMA");
    }
    let place = Place::new();
    let output = place.launch(&["bind:1023", "--", "echo", "ran"]).output().unwrap();
    let (status, text) = said(&output);
    assert_eq!((status, output.stdout.as_slice()), (121, &b""[..]));
    assert!(text.starts_with("maitred launcher: set_mempolicy bind:1023: EINVAL (this kernel"), "{text}");
}

/// Forbids this thread, and whatever it execs, one system call.
fn forbid(call: libc::c_long) -> std::io::Result<()> {
    let word = |code: u32, jt, jf, k| libc::sock_filter { code: u16::try_from(code).unwrap_or(0), jt, jf, k };
    let number = u32::try_from(call).unwrap_or(u32::MAX);
    let mut program = [
        word(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0), // seccomp_data.nr
        word(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number),
        word(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs()),
        word(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: 4, filter: program.as_mut_ptr() };
    // SAFETY: both calls take numbers, and the second reads a filter of four instructions that lives until then.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) == 0
    };
    if set { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[test]
fn a_seccomp_filter_that_forbids_it_is_named() {
    let place = Place::new();
    let mut command = place.launch(&["bind:0", "--", "echo", "ran"]);
    // SAFETY: prctl alone is called between fork and exec.
    unsafe { command.pre_exec(|| forbid(libc::SYS_set_mempolicy)) };
    let output = command.output().unwrap();
    let (status, text) = said(&output);
    assert_eq!((status, output.stdout.as_slice()), (121, &b""[..]), "{text}");
    let expected = "maitred launcher: set_mempolicy bind:0: EPERM (the container's seccomp filter forbids it; \
                    CAP_SYS_NICE allows it under the default one";
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn it_runs_in_an_empty_root_as_nobody_with_no_new_privileges() {
    if !is_root() {
        return eprintln!("skipped: only root can change the root directory");
    }
    let place = Place::new();
    let root = place.0.path().to_owned();
    // It execs itself, the one program there is, which says how it is used.
    let mut command = Command::new("/launcher");
    command.args(["local", "--", "/launcher"]);
    // SAFETY: system calls alone are made between fork and exec; the path was allocated before.
    unsafe {
        command.pre_exec(move || {
            std::os::unix::fs::chroot(&root)?;
            std::env::set_current_dir("/")?;
            nix::unistd::setgid(65534.into())?;
            nix::unistd::setuid(65534.into())?;
            forbid(-1)
        });
    }
    let (status, text) = said(&command.output().unwrap());
    assert_eq!(status, 123, "{text}");
    assert!(text.contains("usage: launcher"), "{text}");
}

/// `cargo test --release --test suite launcher_costs -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn launcher_costs() {
    let place = Place::new();
    let time = |words: &[&str]| {
        let start = std::time::Instant::now();
        let (program, rest) = words.split_first().unwrap();
        assert!(Command::new(program).args(rest).status().unwrap().success());
        start.elapsed()
    };
    let launcher = place.path("launcher").display().to_string();
    let mut pairs: Vec<_> =
        (0..200).map(|_| (time(&["/bin/true"]), time(&[&launcher, "bind:0", "--", "/bin/true"]))).collect();
    let mut extra: Vec<_> =
        pairs.iter().map(|(bare, with)| with.as_nanos() as i128 - bare.as_nanos() as i128).collect();
    extra.sort_unstable();
    pairs.sort_unstable();
    println!(
        "{} bytes; /bin/true {:?}; with the launcher {:+} µs more (median of {} pairs)",
        PROGRAM.len(),
        pairs[pairs.len() / 2].0,
        extra[extra.len() / 2] / 1000,
        extra.len()
    );
}
