//! The containers that run through the whole story, and what each of them must keep.

use crate::expect::{self, expected};
use crate::list::{self, Set};
use crate::node::{Node, Seated};
use crate::observe::Seen;
use crate::packages::systemd;
use crate::pod::Pod;
use crate::wait;
use anyhow::{Context, Result};

/// A pod, what it got at first, and whether its CPUs are its own.
struct Tenant {
    seated: Seated,
    first: Seen,
    exclusive: bool,
}

#[derive(Default)]
pub struct Tenants {
    all: Vec<Tenant>,
    comings: u32,
}

/// The one that crashes now and then.
const CRASHER: &str = "crasher";

impl Tenants {
    /// A pod with CPUs of its own, on one node, with nobody on them.
    pub fn pinned(&mut self, node: &Node, pod: Pod) -> Result<()> {
        let count = pod.containers[0].resources.cpu_limit / 1000;
        let seated = node.run(pod)?;
        let first = node.look(&seated)?;
        expect::seated(&node.machine, &first, count)?;
        self.apart(&first)?;
        self.all.push(Tenant { seated, first, exclusive: true });
        self.undisturbed(node)
    }

    pub fn shared(&mut self, node: &Node, pod: Pod) -> Result<()> {
        let seated = node.run(pod)?;
        let first = node.look(&seated)?;
        self.all.push(Tenant { seated, first, exclusive: false });
        self.undisturbed(node)
    }

    /// What the pod of that name got.
    pub fn seen(&self, name: &str) -> Result<&Seen> {
        Ok(&self.named(name)?.first)
    }

    /// The id of that pod's container.
    pub fn id(&self, name: &str) -> Result<&str> {
        Ok(&self.named(name)?.seated.containers[0])
    }

    fn named(&self, name: &str) -> Result<&Tenant> {
        self.all
            .iter()
            .find(|tenant| tenant.seated.pod.name == name)
            .with_context(|| format!("no pod {name}"))
    }

    fn exclusive(&self) -> impl Iterator<Item = &Tenant> {
        self.all.iter().filter(|tenant| tenant.exclusive)
    }

    /// Every CPU that is nobody's own.
    fn pool(&self, node: &Node) -> Set {
        let taken: Set = self.exclusive().flat_map(|tenant| tenant.first.cpus.clone()).collect();
        &node.machine.all_cpus() - &taken
    }

    fn apart(&self, newcomer: &Seen) -> Result<()> {
        let all: Vec<&Seen> = self.exclusive().map(|tenant| &tenant.first).chain([newcomer]).collect();
        expect::apart(&all)
    }

    /// The same processes, on the CPUs and nodes they had; those that share, on all that is nobody's own.
    pub fn undisturbed(&self, node: &Node) -> Result<()> {
        let pool = self.pool(node);
        for tenant in &self.all {
            let (name, first) = (&tenant.seated.pod.name, &tenant.first);
            if tenant.exclusive {
                let now = node.look(&tenant.seated)?;
                expect::same(&format!("process of {name}"), &first.pid, &now.pid)?;
                expect::cpus(name, &first.cpus, &now.cpus)?;
                expect::same(&format!("nodes of {name}"), &first.mems, &now.mems)?;
                continue;
            }
            wait::until_seen(
                node.patience(),
                &format!("{name} has the shared CPUs {}", list::show(&pool)),
                || {
                    let now = node.look(&tenant.seated)?;
                    expect::same(&format!("process of {name}"), &first.pid, &now.pid)?;
                    Ok((now.cpus != pool).then(|| format!("CPUs {}", list::show(&now.cpus))))
                },
            )?;
        }
        Ok(())
    }

    /// One more pod comes, gets CPUs that nobody has, and goes.
    pub fn newcomer(&mut self, node: &Node) -> Result<()> {
        self.comings += 1;
        let seated = node.run(Pod::guaranteed(&format!("newcomer-{}", self.comings), 2, 32))?;
        let seen = node.look(&seated)?;
        expect::seated(&node.machine, &seen, 2)?;
        self.apart(&seen)?;
        for sharing in self.all.iter().filter(|tenant| !tenant.exclusive) {
            wait::until_seen(node.patience(), "those that share have left the newcomer's CPUs", || {
                let cpus = node.look(&sharing.seated)?.cpus;
                Ok((!cpus.is_disjoint(&seen.cpus)).then(|| format!("CPUs {}", list::show(&cpus))))
            })?;
        }
        node.remove(&seated)
    }

    /// One more pod comes, and nobody gives it anything of its own.
    pub fn unpinned_newcomer(&mut self, node: &Node) -> Result<()> {
        self.comings += 1;
        let seated = node.run(Pod::guaranteed(&format!("newcomer-{}", self.comings), 2, 32))?;
        expect::cpus("a newcomer that nobody seats", &node.machine.all_cpus(), &node.look(&seated)?.cpus)?;
        node.remove(&seated)
    }

    /// Containers that started before are entered, and one crashes and gets its CPUs back.
    pub fn visited(&mut self, node: &Node) -> Result<()> {
        // One of each kind: by the wrapper, and by the plugin.
        for tenant in self.exclusive().take(2) {
            enter(&tenant.seated)?;
        }
        self.comings += 1;
        let attempt = self.comings;
        let Some(crasher) = self.all.iter_mut().find(|tenant| tenant.seated.pod.name == CRASHER) else {
            return Ok(());
        };
        node.crash(&crasher.seated)?;
        node.restart(&mut crasher.seated, attempt)?;
        let again = node.look(&crasher.seated)?;
        expect::cpus("after its crash", &crasher.first.cpus, &again.cpus)?;
        expected!(again.pid != crasher.first.pid, "it never crashed");
        crasher.first = again;
        Ok(())
    }

    pub fn remove_all(&mut self, node: &Node) -> Result<()> {
        self.all.drain(..).try_for_each(|tenant| node.remove(&tenant.seated))
    }

    /// The pod of that name ends.
    pub fn remove(&mut self, node: &Node, name: &str) -> Result<()> {
        let at = self.all.iter().position(|tenant| tenant.seated.pod.name == name);
        let tenant = self.all.remove(at.with_context(|| format!("no pod {name}"))?);
        node.remove(&tenant.seated)
    }
}

pub fn crasher() -> Pod {
    Pod::guaranteed(CRASHER, 1, 64)
}

/// A second process in a container, as `kubectl exec` starts it: its exit status comes back.
fn enter(seated: &Seated) -> Result<()> {
    let arguments = [
        "--namespace",
        "k8s.io",
        "tasks",
        "exec",
        "--exec-id",
        "visit",
        &seated.containers[0],
        "/tenant",
        "exit",
        "7",
    ];
    let said = systemd::tell("ctr", &arguments)?;
    expect::same(&format!("exit status of a visit to {}: {}", seated.pod.name, said.text), &7, &said.code)
}
