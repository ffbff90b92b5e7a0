//! maitred's own decision fails: what must be placed does not start, and the system still does.
//!
//! Needs a build of maitred that takes `MAITRED_FAULT`, as debug builds do.

use super::{Lanes, Scenario};
use crate::expect;
use crate::node::Node;
use crate::pod::Pod;
use crate::settings::Settings;
use anyhow::Result;

pub const ALL: &[Scenario] = &[
    Scenario {
        name: "a panic refuses the pod and spares the system",
        lanes: Lanes::Native,
        settings: Settings::fault("panic:create"),
        run: refuses_and_spares,
    },
    // Five seconds against containerd's two: had maitred no deadline of its own, containerd would
    // close it and start the container unpinned.
    Scenario {
        name: "a late decision refuses the pod and spares the system",
        lanes: Lanes::Native,
        settings: Settings::fault("delay:create:5000"),
        run: refuses_and_spares,
    },
];

fn refuses_and_spares(node: &mut Node) -> Result<()> {
    // Twice: the fault has not cost maitred its place at containerd's side.
    for name in ["first", "second"] {
        expect::refused(node.run(Pod::guaranteed(name, 1, 64)), &[])?;
    }
    let system = Pod::guaranteed("cni", 1, 64).namespace("kube-system");
    for pod in [system, Pod::guaranteed("etcd", 1, 64).static_pod(), Pod::burstable("shared", 100)] {
        node.run(pod)?;
    }
    Ok(())
}
