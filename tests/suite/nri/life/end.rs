//! When all pods have ended, all there is can be given out again.

use super::node::Node;
use super::world::Dies;
use crate::churn::pods;
use maitred::model::*;
use std::collections::BTreeMap;

impl Node {
    pub async fn end(&self) {
        self.everybody_leaves().await;
        let reserved = self.reserved();
        let topology = self.sim.borrow().world.topology.clone();
        let cpus = topology.cpus.difference(&reserved).len();
        let one = limits(1000, 1 << 20);
        self.give("a CPU", 0, cpus, &one).await;
        self.everybody_leaves().await;
        let whole = topology.gpus.iter().filter(|gpu| gpu.mig.is_empty()).count();
        self.give("a GPU", 2, whole, &limits(100, 1 << 20)).await;
        self.everybody_leaves().await;
        let whole = |node: &NumaNode| !node.cpus.difference(&reserved).is_empty();
        let pools = topology.numa_nodes.iter().filter(|node| whole(node)).count();
        let pages = Resources { hugepage_limits: vec![("2MB".into(), 128 << 20)], ..one };
        self.give("a node's huge pages", 0, pools, &pages).await;
    }

    async fn everybody_leaves(&self) {
        let living = |node: &Self| node.living(0);
        while let Some(pod) = living(self) {
            self.end_of(&pod, true, false).await;
        }
        self.check("when everybody has left").await;
    }

    /// So many get what they ask for, and nobody more where that can be told.
    async fn give(&self, what: &str, flavour: u8, count: usize, asks: &Resources) {
        for number in 0..count {
            let facts = pods::pod(self.sim.borrow_mut().fresh(), 0, flavour);
            let facts = PodFacts { cgroups_path: format!("{}/{}", facts.cgroup_parent, facts.id), ..facts };
            let run = self.run_pod(facts.clone()).await;
            run.unwrap_or_else(|text| panic!("{what} is lost: pod {number} of {count}: {text}"));
            let asked = pods::container(self.sim.borrow_mut().fresh(), &facts, 0, 0);
            let asked = ContainerFacts {
                resources: asks.clone(),
                env: Vec::new(),
                annotations: BTreeMap::new(),
                ..asked
            };
            let id = asked.id.clone();
            let made = self.create(asked, Dies::Not).await;
            made.unwrap_or_else(|text| panic!("{what} is lost: container {number} of {count}: {text}"));
            let made = self.sim.borrow().containers[&id].clone();
            self.start(&made).await;
        }
        self.check(what).await;
    }
}

fn limits(milli: u64, memory: i64) -> Resources {
    Resources {
        shares: Some(milli * 1024 / 1000),
        quota: Some(i64::try_from(milli * 100).unwrap()),
        period: Some(100_000),
        memory_limit: Some(memory),
        ..Resources::default()
    }
}
