//! How decision times grow, and how they compare with trying every combination of node sets, as tables.

use crate::machines::{Shape, filled, pod, policy, request, uneven};
use crate::naive::{Naive, Sum};
use maitred::engine::{GPU, Machine, admit_container, choose_seat};
use maitred::model::*;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The middle one of the times of many runs, a tenth of a second's worth.
fn median(mut run: impl FnMut()) -> Duration {
    let (begin, mut times) = (Instant::now(), Vec::new());
    while times.is_empty() || (times.len() < 1000 && begin.elapsed() < Duration::from_millis(100)) {
        let start = Instant::now();
        run();
        times.push(start.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

fn decision(machine: &Machine, request: &ContainerRequest, topology: TopologyPolicy) -> Duration {
    let (occupancy, policy) = (filled(machine, 5), policy(topology));
    let pod = PodUid::new("new");
    median(|| {
        let placed = admit_container(machine, &occupancy, &pod, black_box(request), None, &policy);
        drop(black_box(placed));
    })
}

/// The slope of a straight line through the logarithms: the exponent of a power law.
fn exponent(points: &[(u32, Duration)]) -> f64 {
    let logs = points.iter().map(|(size, time)| (f64::from(*size).ln(), time.as_secs_f64().ln()));
    let count = points.len() as f64;
    let (x, y) = logs.clone().fold((0.0, 0.0), |(x, y), (a, b)| (x + a / count, y + b / count));
    let (up, run) =
        logs.fold((0.0, 0.0), |(up, run), (a, b)| (up + (a - x) * (b - y), run + (a - x) * (a - x)));
    up / run
}

/// A column: what is asked of a machine of that size.
struct Column {
    name: &'static str,
    time: fn(u32) -> Duration,
}

fn even(nodes: u32, cores: u32) -> Machine {
    Shape { name: "", nodes, memory_only: 0, cores }.machine()
}

const BY_NODES: [Column; 4] = [
    Column {
        name: "admitted",
        time: |nodes| decision(&even(nodes, 8), &request(4, 16, 2, 1), TopologyPolicy::SingleNumaNode),
    },
    Column {
        name: "refused",
        time: |nodes| decision(&even(nodes, 8), &request(24, 16, 2, 1), TopologyPolicy::SingleNumaNode),
    },
    Column { name: "uneven, fits", time: |nodes| uneven_decision(nodes, TopologyPolicy::BestEffort) },
    Column { name: "uneven, refused", time: |nodes| uneven_decision(nodes, TopologyPolicy::SingleNumaNode) },
];

/// Half of the machine, on nodes of which no two are alike.
fn uneven_decision(nodes: u32, topology: TopologyPolicy) -> Duration {
    let request = request(nodes * 3, u64::from(nodes) * 50, u64::from(nodes) * 6, 0);
    decision(&uneven(nodes), &request, topology)
}

const BY_CPUS: [Column; 2] = [
    Column {
        name: "admitted",
        time: |cpus| decision(&even(8, cpus / 16), &request(4, 16, 2, 1), TopologyPolicy::SingleNumaNode),
    },
    Column {
        name: "refused",
        time: |cpus| {
            decision(&even(8, cpus / 16), &request(cpus / 4, 16, 2, 1), TopologyPolicy::SingleNumaNode)
        },
    },
];

fn table(title: &str, sizes: &[u32], columns: &[Column]) {
    println!("\n{title}");
    let times: Vec<Vec<_>> = columns
        .iter()
        .map(|column| sizes.iter().map(|size| (*size, (column.time)(*size))).collect())
        .collect();
    print!("{:>10}", "");
    columns.iter().for_each(|column| print!("{:>18}", column.name));
    for (row, size) in sizes.iter().enumerate() {
        print!("\n{size:>10}");
        times.iter().for_each(|column| print!("{:>18}", format!("{:.1?}", column[row].1)));
    }
    print!("\n{:>10}", "exponent");
    times.iter().for_each(|column| print!("{:>18.2}", exponent(column)));
    println!();
}

/// Prints both tables.
pub fn print() {
    table("time by nodes, 16 CPUs each", &[1, 2, 4, 8, 16, 32, 64, 128], &BY_NODES);
    table("time by CPUs, on 8 nodes", &[64, 128, 256, 512, 1024, 2048, 4096], &BY_CPUS);
    compare();
}

/// The kubelet's way of finding the nodes, against ours and against a whole decision.
fn compare() {
    println!("\ntrying every combination of node sets to find the nodes, and a whole decision of maitred");
    println!("{:>10}{:>18}{:>18}{:>10}{:>18}", "nodes", "enumerating", "maitred", "ratio", "whole decision");
    for nodes in [2, 4, 6, 8] {
        let shape = Shape { name: "", nodes, memory_only: 0, cores: 32 };
        let request = request(96, 200, 2, 4);
        let (machine, policy) = (shape.machine(), policy(TopologyPolicy::BestEffort));
        let gpu = |at: u32| (DeviceId::new(format!("GPU-{at}")), NodeSet::single(NodeId(at * nodes / 8)));
        let gpus = (GPU.into(), (0..8).map(gpu).collect());
        let naive = Naive::new(shape.topology(), machine.reserved().clone(), &[gpus]);
        let sum = Sum::of(&request, &policy);
        let theirs = median(|| {
            black_box(naive.align(&"new".into(), black_box(&sum), &policy));
        });
        let occupancy = filled(&machine, 0);
        let pod = pod(vec![request.clone()]);
        let ours = median(|| drop(black_box(choose_seat(&machine, &occupancy, black_box(&pod), &policy))));
        let whole = decision(&machine, &request, TopologyPolicy::BestEffort);
        let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
        let [theirs, ours, whole] = [theirs, ours, whole].map(|time| format!("{time:.1?}"));
        println!("{nodes:>10}{theirs:>18}{ours:>18}{ratio:>10.1}{whole:>18}");
    }
}
