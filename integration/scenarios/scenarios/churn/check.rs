//! What must hold after every step, by what the containers themselves see.

use super::life::Tenant;
use super::room::{Ask, Class};
use crate::expect::{self, expected};
use crate::list::{self, Set};
use crate::machine::Machine;
use crate::node::Node;
use crate::observe::{self, Seen};
use crate::wait;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Whether a container has what its pod asked for; the node that it holds something of, if any.
pub fn home(machine: &Machine, ask: Ask, seen: &Seen) -> Result<Option<u32>> {
    let gpus = seen.gpus();
    expected!(gpus.len() == ask.gpus, "wanted {} GPUs, sees {gpus:?}", ask.gpus);
    let mut beside = Set::new();
    for id in &gpus {
        let gpu = machine.gpus.iter().find(|gpu| gpu.uuid == *id);
        expected!(gpu.is_some(), "{id:?} is not the UUID of a GPU of this machine");
        beside.extend(gpu.map(|gpu| gpu.node));
    }
    let own = match ask.class {
        Class::Pinned(cpus) => Some(expect::seated(machine, seen, cpus)?),
        Class::Fractional => {
            expected!(seen.mems.len() == 1, "Guaranteed, with memory from {}", list::show(&seen.mems));
            seen.mems.first().copied()
        }
        Class::Burstable | Class::BestEffort => None,
    };
    let on: Set = beside.iter().copied().chain(own).collect();
    expected!(
        on.len() <= 1,
        "it has things of the nodes {}, GPUs of {}",
        list::show(&on),
        list::show(&beside)
    );
    Ok(on.into_iter().next())
}

/// A container that takes its hugepages has them all from the node it sits on.
pub fn touched(node: &Node, tenant: &Tenant) -> Result<()> {
    let (Some(home), true) = (tenant.home, tenant.ask.touches()) else { return Ok(()) };
    let wanted = BTreeMap::from([(home, tenant.ask.pages)]);
    wait::until_seen(node.patience(), &format!("hugepages by node are {wanted:?}"), || {
        let held = observe::pages_by_node(tenant.seen.pid, " huge ")?;
        Ok((held != wanted).then(|| format!("{tenant} holds {held:?}")))
    })
}

/// Everything at once.
pub fn all(node: &Node, tenants: &[Tenant]) -> Result<()> {
    for tenant in tenants.iter().filter(|tenant| tenant.up) {
        unmoved(node, tenant).with_context(|| tenant.to_string())?;
    }
    given_once(&node.machine, tenants)?;
    pages(&node.machine, tenants)?;
    pool(node, tenants)
}

/// A live pod keeps what it has got. CPUs that it shares are another matter.
fn unmoved(node: &Node, tenant: &Tenant) -> Result<()> {
    let (was, is) = (&tenant.seen, observe::process(tenant.seen.pid, node.lane.start_limit())?);
    if tenant.pinned() {
        expect::cpus("CPUs of its own", &was.cpus, &is.cpus)?;
    }
    expect::same("nodes", &was.mems, &is.mems)?;
    expect::same("GPUs", &was.gpus(), &is.gpus())
}

/// No CPU and no GPU is two pods', whether their containers run or will run again.
fn given_once(machine: &Machine, tenants: &[Tenant]) -> Result<()> {
    let (mut cpus, mut gpus) = (machine.reserved.clone(), BTreeSet::new());
    for tenant in tenants {
        for gpu in tenant.seen.gpus() {
            expected!(gpus.insert(gpu.clone()), "{gpu} is {tenant}'s and somebody else's");
        }
        if tenant.pinned() {
            let both: Set = &cpus & &tenant.seen.cpus;
            expected!(both.is_empty(), "CPUs {} are {tenant}'s and taken", list::show(&both));
            cpus.extend(&tenant.seen.cpus);
        }
    }
    Ok(())
}

fn pages(machine: &Machine, tenants: &[Tenant]) -> Result<()> {
    let mut promised: BTreeMap<u32, u64> = BTreeMap::new();
    for tenant in tenants {
        if let Some(home) = tenant.home {
            *promised.entry(home).or_default() += tenant.ask.pages;
        }
    }
    for numa in &machine.nodes {
        let pages = promised.get(&numa.id).copied().unwrap_or(0);
        expected!(
            pages <= numa.hugepages,
            "node {} has {} hugepages, {pages} are promised",
            numa.id,
            numa.hugepages
        );
    }
    Ok(())
}

/// Every shared container has exactly the CPUs that no running container has for itself: those of a container
/// that has ended are lent.
fn pool(node: &Node, tenants: &[Tenant]) -> Result<()> {
    let mut pool = node.machine.all_cpus();
    for tenant in tenants.iter().filter(|tenant| tenant.up && tenant.pinned()) {
        pool.retain(|cpu| !tenant.seen.cpus.contains(cpu));
    }
    let shared: Vec<&Tenant> = tenants.iter().filter(|tenant| tenant.up && !tenant.pinned()).collect();
    let what = format!("shared containers have the CPUs {}", list::show(&pool));
    wait::until_seen(node.patience(), &what, || {
        for tenant in &shared {
            let cpus = observe::process(tenant.seen.pid, node.lane.start_limit())?.cpus;
            if cpus != pool {
                return Ok(Some(format!("{tenant} with {}", list::show(&cpus))));
            }
        }
        Ok(None)
    })
}
