//! Random comings and goings through the reducer, with a small runtime that does what it is told: replies,
//! updates and writes that arrive or get lost, failed creates, ends nobody tells of, and a daemon that is killed,
//! switched off or not asked, and a kubelet that gives pods GPUs, replicas of GPUs and parts of them. After every
//! step nobody is on anybody's exclusive CPUs, and no GPU is two pods'.
//!
//! `PROPTEST_CASES=20000` for the long run.

mod check;
mod kubelet;
pub mod machines;
mod node;
pub mod pods;
pub mod runtime;

use maitred::decision::{AnnotationPool, FailurePolicy, Ineligible, Mode, Settings};
use maitred::model::*;
use node::{Fate, Node, Op};
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeSet;

fn op() -> impl Strategy<Value = Op> {
    let fate = prop_oneof![
        12 => Just(Fate::Made), 2 => Just(Fate::ReplyLost), 1 => Just(Fate::Fails), 1 => Just(Fate::Unasked)
    ];
    prop_oneof![
        6 => (0u8..4, 0u8..20).prop_map(|(class, flavour)| Op::Run { class, flavour }),
        14 => (any::<u8>(), 0u8..3, 0u8..10, fate)
            .prop_map(|(pod, name, ask, fate)| Op::Create { pod, name, ask, fate }),
        6 => any::<u8>().prop_map(Op::Start),
        3 => any::<u8>().prop_map(Op::Exit),
        4 => any::<u8>().prop_map(Op::Stop),
        2 => any::<u8>().prop_map(Op::Remove),
        3 => (any::<u8>(), any::<bool>()).prop_map(|(pod, told)| Op::StopPod { pod, told }),
        1 => any::<u8>().prop_map(Op::RemovePod),
        1 => any::<u8>().prop_map(Op::Replace),
        3 => (any::<u8>(), 0u8..4).prop_map(|(container, how)| Op::Update { container, how }),
        3 => Just(Op::Observe),
        1 => any::<u8>().prop_map(|which| Op::Lose { which }),
        2 => Just(Op::Restart),
        1 => Just(Op::Switch),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    let words = (
        select(TopologyPolicy::ALL.iter().map(|(_, it)| *it).collect::<Vec<_>>()),
        select(vec![Scope::Container, Scope::Pod]),
        select(vec![Ineligible::Warn, Ineligible::Align, Ineligible::Reject]),
        select(vec![FailurePolicy::Reject, FailurePolicy::Admit]),
        prop_oneof![4 => Just(Mode::Enforce), 1 => Just(Mode::Audit)],
    );
    let options = select(vec![
        vec![],
        vec![],
        vec![CpuOption::StrictReservation],
        vec![CpuOption::FullPcpusOnly],
        vec![CpuOption::DistributeAcrossNuma],
    ]);
    let pool = select(vec![
        AnnotationPool::None,
        AnnotationPool::All,
        AnnotationPool::All,
        AnnotationPool::Only(["GPU-1".into(), "GPU-gone".into()].into()),
    ]);
    let static_memory = proptest::bool::weighted(0.8);
    (words, options, pool, static_memory).prop_map(|(words, options, annotation_pool, static_memory)| {
        let (topology, scope, ineligible, failure, mode) = words;
        Settings {
            mode,
            policy: Policy {
                topology,
                scope,
                cpu: CpuOptions(options.into_iter().collect::<BTreeSet<_>>()),
                prefer_closest: false,
                memory: if static_memory { MemoryManager::Static } else { MemoryManager::None },
                unknown_locality: UnknownLocality::Reject,
            },
            ineligible,
            failure,
            drop_cfs_quota: true,
            reserved_namespaces: ["reserved".to_owned()].into(),
            reserved: "0".parse().unwrap(),
            memory_policy: Some(MemoryMode::Bind),
            delivery: None,
            launcher: None,
            prove_hugepages: false,
            annotation_pool,
            authority: maitred::decision::CpuAuthority::Maitred,
            gpu_placement: maitred::decision::GpuPlacement::Keep,
            gpus_linked: false,
            unrequested: maitred::decision::Unrequested::Leave,
            trusted_namespaces: ["trusted".to_owned()].into(),
            exempt: maitred::decision::Exempt {
                namespaces: ["kube-system".to_owned()].into(),
                runtime_handlers: BTreeSet::new(),
            },
            features: maitred::decision::Features::default(),
        }
    })
}

#[test]
fn nobody_is_ever_on_anybodys_cpus() {
    let strategy = (0..machines::COUNT, settings(), proptest::collection::vec(op(), 1..90));
    crate::steps::run("churn", 4000..=u32::MAX, &strategy, |(machine, settings, ops)| {
        let mut node = Node::new(machines::machine(machine), settings);
        for op in &ops {
            node.apply(op);
            node.check();
        }
        node.end();
        Ok(ops.len())
    });
}
