//! How a memory policy reaches a container: the best way that what we answer, and the container, allow.

use super::{Delivery, Edit, Features, Mount, Settings};
use crate::model::{ContainerFacts, MemoryKind, MemoryMode, MemoryPolicy, NodeSet, Placement, PolicyCalls};

/// Where the launcher lies in a container. /dev is a tmpfs that every runtime makes, so the place can be made there
/// whatever the image has, also where its root is read-only.
pub const LAUNCHER: &str = "/dev/.maitred-launcher";

/// The policy of that mode on those nodes, as the kernel takes it. `preferred` takes one node, so several are
/// `preferred-many`; a mode that the kernel or the runtime does not know gives way to the older one of its kind.
#[must_use]
pub fn memory_policy(mode: MemoryMode, mems: &NodeSet, features: &Features) -> MemoryPolicy {
    let mode = match mode {
        MemoryMode::Preferred if mems.len() > 1 && features.preferred_many => MemoryMode::PreferredMany,
        MemoryMode::PreferredMany if !features.preferred_many => MemoryMode::Preferred,
        MemoryMode::WeightedInterleave if !features.weighted_interleave => MemoryMode::Interleave,
        known => known,
    };
    let nodes = match mode {
        MemoryMode::Local => NodeSet::new(),
        MemoryMode::Preferred => mems.first().into_iter().collect(),
        _ => mems.clone(),
    };
    MemoryPolicy { mode, nodes }
}

/// Puts a memory policy into an edit by the way the owner chose, or the best there is; the log's words for it.
///
/// # Errors
/// The way the owner chose is none here: which, and why not.
pub(super) fn deliver(
    edit: &mut Edit,
    mode: MemoryMode,
    container: &ContainerFacts,
    placement: &Placement,
    settings: &Settings,
) -> Result<String, String> {
    let policy = memory_policy(mode, &placement.mems, &settings.features);
    let (delivery, why) = choose(container, placement, settings)?;
    let mut said = match delivery {
        Delivery::Cpuset => format!("cpuset.mems {} alone", placement.mems),
        way => format!("{policy} {way}"),
    };
    // With several nodes `preferred` becomes `preferred-many` and nothing is lost by it.
    let lost = policy.mode != mode && mode != MemoryMode::Preferred && delivery != Delivery::Cpuset;
    let lost = lost.then(|| format!("{mode} is unknown to the kernel or the runtime"));
    let reasons: Vec<String> = lost.into_iter().chain(why).collect();
    if !reasons.is_empty() {
        said.push_str(&format!(" ({})", reasons.join("; ")));
    }
    if delivery == Delivery::Launcher {
        edit.mounts.extend(settings.launcher.as_deref().map(mount));
        edit.args = Some(command(&policy, container, placement, settings));
    }
    edit.memory_policy = Some(policy).filter(|_| delivery != Delivery::Cpuset);
    edit.delivery = Some(delivery);
    Ok(said)
}

/// Why the way the owner chose can never be gone with this runtime, if it is so: worth saying before a container
/// asks for it.
#[must_use]
pub fn undeliverable(settings: &Settings) -> Option<String> {
    let way = settings.delivery.filter(|_| settings.memory_policy.is_some())?;
    runtime_takes(way, settings).err().map(|why| refusal(way, why))
}

fn refusal(way: Delivery, why: &str) -> String {
    format!("memory.delivery = \"{way}\" cannot be followed: {why}; expected \"auto\", or another way")
}

/// The way, and why it is not a better one.
fn choose(
    container: &ContainerFacts,
    placement: &Placement,
    settings: &Settings,
) -> Result<(Delivery, Vec<String>), String> {
    if let Some(way) = settings.delivery {
        let possible = runtime_takes(way, settings).and_then(|()| container_takes(way, container));
        return possible.map(|()| (way, Vec::new())).map_err(|why| refusal(way, why));
    }
    // Only the launcher can prove huge pages.
    let prove = settings.prove_hugepages && placement.page_sizes().next().is_some();
    let mut ways = [Delivery::Native, Delivery::Inherited, Delivery::Launcher];
    if prove {
        ways.rotate_right(1);
    }
    let mut missed = Vec::new();
    for way in ways {
        match runtime_takes(way, settings).and_then(|()| surely_takes(way, container)) {
            Ok(()) if prove && way != Delivery::Launcher => {
                return Ok((way, vec![format!("huge pages not proven: {}", missed.join("; "))]));
            }
            Ok(()) => return Ok((way, Vec::new())),
            // Who is behind a wrapper knows; to everybody else it says nothing.
            Err(_) if way == Delivery::Inherited => {}
            Err(why) => missed.push(why.to_owned()),
        }
    }
    Ok((Delivery::Cpuset, missed))
}

/// Whether the way in can do it.
fn runtime_takes(way: Delivery, settings: &Settings) -> Result<(), &'static str> {
    let Features { memory_policy, inherits_policy, args, .. } = settings.features;
    match way {
        Delivery::Native if !memory_policy => {
            Err("the runtime sets no memory policy (NRI from 0.12 does, and runc from 1.4 or crun from 1.24)")
        }
        Delivery::Inherited if !inherits_policy => {
            Err("only behind the runtime wrapper is a policy inherited")
        }
        Delivery::Launcher if !args => Err("the command line cannot be changed (NRI from 0.10 can)"),
        Delivery::Launcher if settings.launcher.is_none() => Err("the launcher could not be put on the host"),
        _ => Ok(()),
    }
}

/// Whether this container lets it be done, as far as is told.
fn container_takes(way: Delivery, container: &ContainerFacts) -> Result<(), &'static str> {
    let host_dev = || container.mounts.iter().any(|m| m.destination == "/dev" && m.source.starts_with('/'));
    match way {
        Delivery::Launcher if container.args.is_empty() => Err("the container's command line is not told"),
        Delivery::Launcher if host_dev() => Err("the container's /dev is a directory of the host"),
        Delivery::Launcher if container.policy_calls == PolicyCalls::Denied => Err(
            "the container's seccomp filter forbids set_mempolicy to a launcher (CAP_SYS_NICE would allow it)",
        ),
        _ => Ok(()),
    }
}

/// The same without a doubt: a launcher that is not let ends the container.
fn surely_takes(way: Delivery, container: &ContainerFacts) -> Result<(), &'static str> {
    container_takes(way, container)?;
    match container.policy_calls {
        PolicyCalls::NeedSysNice if way == Delivery::Launcher => {
            Err("the default seccomp filter forbids set_mempolicy to a launcher without CAP_SYS_NICE")
        }
        PolicyCalls::Unknown if way == Delivery::Launcher => {
            Err("whether the container's seccomp filter allows set_mempolicy to a launcher is not told")
        }
        _ => Ok(()),
    }
}

fn mount(launcher: &str) -> Mount {
    Mount {
        source: launcher.to_owned(),
        destination: LAUNCHER.to_owned(),
        kind: "bind".to_owned(),
        options: ["bind", "rprivate", "ro", "nosuid", "nodev"].map(str::to_owned).to_vec(),
    }
}

/// The launcher's own words, then the container's command line.
fn command(
    policy: &MemoryPolicy,
    container: &ContainerFacts,
    placement: &Placement,
    settings: &Settings,
) -> Vec<String> {
    let mut words = vec![LAUNCHER.to_owned(), policy.to_string()];
    if settings.prove_hugepages {
        words.extend(huge_pages(placement));
    }
    words.push("--".to_owned());
    words.extend(container.args.iter().cloned());
    words
}

/// `prove:PAGE_KIB:PAGES:NODES` for each promise.
fn huge_pages(placement: &Placement) -> impl Iterator<Item = String> + '_ {
    placement.memory.iter().filter_map(|block| match block.kind {
        MemoryKind::Hugepages(size) => {
            Some(format!("prove:{}:{}:{}", size.bytes() >> 10, block.bytes.0 / size.bytes(), block.nodes))
        }
        MemoryKind::Memory => None,
    })
}

#[cfg(test)]
mod tests;
