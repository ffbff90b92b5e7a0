//! How long one decision takes: `cargo bench`. A word after `--` runs the cases with that word in their
//! names; without one, tables of how times grow follow. Nothing here is asserted: a busy machine proves nothing. That the work grows no faster than a
//! polynomial is a test of its own (`src/engine/work.rs`).

mod cases;
mod growth;
mod machines;
/// The suite's oracle; what it has for its own checks is not used here.
#[path = "../suite/engine/naive.rs"]
#[allow(dead_code)]
mod naive;

use cases::Case;
use divan::Bencher;

fn main() {
    divan::main();
    if std::env::args().skip(1).all(|arg| arg == "--bench") {
        growth::print();
    }
}

/// A container that fits one node.
#[divan::bench(args = cases::admitted(), max_time = 0.1)]
fn admitted(bencher: Bencher, case: &Case) {
    case.measure(bencher);
}

/// A container that takes more CPUs than a node has and memory of one: refused, with what each node
/// lacks, what a laxer policy would do and the most that would fit.
#[divan::bench(args = cases::refused(), max_time = 0.1)]
fn refused(bencher: Bencher, case: &Case) {
    case.measure(bencher);
}

/// A container that takes two nodes, as far as the policy lets it.
#[divan::bench(args = cases::two_nodes(), max_time = 0.1)]
fn two_nodes(bencher: Bencher, case: &Case) {
    case.measure(bencher);
}

/// A pod of an init container, a sidecar and two others, aligned one by one or together.
#[divan::bench(args = cases::pods(), max_time = 0.1)]
fn pods(bencher: Bencher, case: &Case) {
    case.measure(bencher);
}

/// Every CPU option, on nodes that are half full.
#[divan::bench(args = cases::cpu_options(), max_time = 0.1)]
fn cpu_options(bencher: Bencher, case: &Case) {
    case.measure(bencher);
}

/// No two nodes alike, and requests for a few up to many of them.
#[divan::bench(args = cases::uneven(), max_time = 0.1)]
fn uneven(bencher: Bencher, case: &Case) {
    case.measure(bencher);
}
