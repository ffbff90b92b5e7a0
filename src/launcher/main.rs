//! The few kilobytes that run inside a container in front of its command: set the memory policy, prove the huge
//! pages, exec the command.
//!
//! ```text
//! launcher POLICY [prove:PAGE_KIB:PAGES:NODES]… -- COMMAND [ARGUMENT]…
//! ```
//!
//! POLICY is `MODE:NODES` with a kernel list of nodes (`bind:0-1`), `local`, or `none`. The command is found as a
//! container runtime finds it, in the directories of PATH unless it has a slash; its arguments, environment and
//! working directory are what they were. Exit status 121: the policy was refused; 122: the huge pages are not there;
//! 123: these words are not understood; 126 and 127: the command cannot be run, or is not there.
//!
//! No standard library, no libc, no allocation: an image may have nothing at all in it. It is a crate of its own,
//! built by `build.rs` and carried inside `maitred`; `no_builtins` keeps the compiler from calling a memcpy that
//! nobody brings.

#![no_std]
#![no_main]
#![no_builtins]

mod line;
mod system;
mod words;

use line::Line;
use system::{Env, Errno, Vector};
use words::{Policy, Proof};

const REFUSED: i32 = 121;
const NO_PAGES: i32 = 122;
const USAGE: i32 = 123;
const NOT_RUN: i32 = 126;
const NOT_FOUND: i32 = 127;

/// What a shell and most runtimes search where PATH is not set.
const DEFAULT_PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The longest path the kernel takes, with its final zero.
const PATH_MAX: usize = 4096;

/// Where `_start` goes.
fn run(arguments: Vector, env: Env) -> ! {
    let Some(policy) = arguments.get(1).and_then(Policy::parse) else { usage() };
    let mut at = 2;
    while let Some(word) = arguments.get(at).filter(|word| *word != b"--") {
        let Some(proof) = Proof::parse(word) else { usage() };
        prove(&proof);
        at += 1;
    }
    let Some(command) = arguments.get(at + 1).filter(|_| arguments.get(at).is_some()) else { usage() };
    if let Err(error) = system::set_policy(&policy) {
        refused(arguments.get(1).unwrap_or_default(), error);
    }
    let error = exec(command, arguments.after(at + 1), env);
    let mut line = Line::new();
    line.text(b"cannot run ").text(command).text(b": ").errno(error).print();
    system::exit(if error == Errno::NOENT { NOT_FOUND } else { NOT_RUN })
}

fn usage() -> ! {
    let mut line = Line::new();
    line.text(
        b"usage: launcher MODE:NODES|local|none [prove:PAGE_KIB:PAGES:NODES]... -- COMMAND [ARGUMENT]...",
    );
    line.print();
    system::exit(USAGE)
}

fn refused(policy: &[u8], error: Errno) -> ! {
    let why: &[u8] = match error {
        Errno::PERM | Errno::NOSYS | Errno::ACCES => {
            b" (the container's seccomp filter forbids it; CAP_SYS_NICE allows it under the default one, and \
              memory.delivery = \"cpuset\" needs no permission)"
        }
        Errno::INVAL => {
            b" (this kernel does not know the mode, or the container's cpuset.mems has none of the nodes)"
        }
        _ => b"",
    };
    let mut line = Line::new();
    line.text(b"set_mempolicy ").text(policy).text(b": ").errno(error).text(why).print();
    system::exit(REFUSED)
}

/// Maps the pages where they were promised, touches each, and gives them back for the command to take.
///
/// By the task's own policy, not by mbind: the kernel checks a mapping's reservation against the former alone.
fn prove(proof: &Proof) {
    if let Err(error) = system::set_policy(&proof.policy) {
        refused(proof.word, error);
    }
    let mut line = Line::new();
    line.text(b"the promised huge pages are not there (").text(proof.word).text(b"): ");
    match system::populate(proof.page_bytes, proof.pages) {
        Ok(there) if there == proof.pages => return,
        Ok(there) => line.number(there).text(b" of ").number(proof.pages).text(b" pages could be taken"),
        Err(error) => line.text(b"mmap: ").errno(error),
    };
    line.print();
    system::exit(NO_PAGES)
}

/// Comes back only with why it could not be run.
fn exec(command: &[u8], arguments: Vector, env: Env) -> Errno {
    let mut path = [0; PATH_MAX];
    if command.contains(&b'/') {
        return at(&mut path, b"", command, arguments, env);
    }
    // What was found and could not be run goes before what was not found.
    let mut worst = Errno::NOENT;
    for dir in env.get(b"PATH").unwrap_or(DEFAULT_PATH).split(|byte| *byte == b':') {
        match at(&mut path, dir, command, arguments, env) {
            Errno::NOENT | Errno::NOTDIR => {}
            Errno::ACCES => worst = Errno::ACCES,
            other => return other,
        }
    }
    worst
}

fn at(path: &mut [u8; PATH_MAX], dir: &[u8], command: &[u8], arguments: Vector, env: Env) -> Errno {
    let slash: &[u8] = if dir.is_empty() { b"" } else { b"/" };
    let bytes = dir.iter().chain(slash).chain(command).chain(b"\0");
    let mut to = path.iter_mut();
    for byte in bytes {
        let Some(place) = to.next() else { return Errno::NAMETOOLONG };
        *place = *byte;
    }
    system::exec(path, arguments, env)
}

/// Nothing here panics: every access is checked and says what it does when it fails.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    system::exit(USAGE)
}
