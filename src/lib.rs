//! maitred seats a container's CPUs, memory, hugepages, GPUs and NICs on one NUMA node, or refuses
//! to start it and says why.
//!
//! The rooms, in the order a container walks through them:
//!
//! | room | what it holds | may use |
//! |---|---|---|
//! | [`model`] | nouns: ids, sets, topology, facts, request, placement, rejection | nothing |
//! | [`engine`] | verbs: admit a pod or a container over one occupancy | model |
//! | [`ledger`] | who holds what; reserve, confirm, lend, release, replay | model, engine |
//! | [`decision`] | the reducer: state and event in, outcome out | model, engine, ledger |
//! | [`discover`] | the machine: sysfs, procfs, NVML and CDI specs to a topology; the kubelet's books; what it and containerd are told | model |
//! | [`host`] | this machine's cgroups and processes | model, decision |
//! | [`store`] | what lies below `/run/maitred` | model |
//! | [`config`] | the configuration file: raw and strict, then validated | model, engine, decision |
//! | [`log`] | JSON lines, or text for people; verdicts as the journal keeps them | model, decision, store, config |
//! | [`metrics`] | what is counted, and the page it is served on | model, decision |
//! | [`nri`] | containerd: mux, ttrpc, event loop | model, engine, ledger, decision, log |
//! | [`oci`] | config.json, the runtime wrapper, hook stages | model, engine, ledger, decision, discover, host, store, config, log |
//! | [`cli`] | one file a verb; where the rooms are put together | all above |
//!
//! The first four never touch files, environment, clock or threads. A test (`tests/suite/rooms.rs`) reads this
//! table and checks every room's imports against it.

#![deny(unsafe_code)]

pub mod cli;
pub mod config;
pub mod decision;
pub mod discover;
pub mod engine;
pub mod host;
pub mod ledger;
pub mod log;
pub mod metrics;
pub mod model;
pub mod nri;
pub mod oci;
pub mod store;
