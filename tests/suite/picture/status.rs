//! The node as a picture: the same as its text, on the machine.

use super::reading::{check, keys, words};
use crate::status::{BATCH, VLLM, busy};
use maitred::discover::{Options, Root, topology};

#[test]
fn who_holds_what_is_drawn_where_it_is_with_what_is_free() {
    let site = busy();
    let (status, svg, err) = site.run("status", &["-o", "svg"]);
    assert_eq!((status, err.as_str()), (0, ""));
    let root = Root::open(site.path()).unwrap();
    check(&svg, &topology(&root, &Options::for_root(&root, None)).unwrap()).unwrap();
    assert_eq!(keys(&svg, &[0, 1, 2, 5, 6]), ["0", "A", "B", "A", "6"], "a free CPU has its number");
    let words = words(&svg);
    for told in [
        "inference/vllm-0 server: 2 CPUs: 1,5, GPU 0, 32Gi, 2 × 1Gi",
        "work/batch job: 1 CPU: 2, stopped, kept",
        "CPU 5: inference/vllm-0 server",
        "CPU 4: kept for the system",
        "1 of 2 CPUs free",
        "memory: 15Gi of 63Gi free",
        // Of the four in use two can be vLLM's own.
        "1Gi pages: 12 of 16 free",
        "2 × 1Gi in use beside the promises",
        "in use beside the promises",
        "daemon not running: shown is what the allocations in the store say",
        "shared pool: 1 container on 6 CPUs: 0,2-4,6-7",
        "largest pod that fits now: 2 CPUs, 46.98Gi, 1 GPU on node 3",
        "4 nodes, 8 CPUs, 2 GPUs, 2 NICs; policy single-numa-node, scope pod",
    ] {
        assert!(words.contains(told), "{told}: {words:#?}");
    }
}

#[test]
fn nobody_is_an_empty_machine_and_off_stands_out() {
    let site = crate::status::Site::new();
    site.store().set_off("ticket 7").unwrap();
    let svg = site.run("status", &["-o", "svg"]).1;
    assert_eq!(keys(&svg, &[1, 2]), ["1", "2"]);
    let red = roxmltree::Document::parse(&svg).unwrap();
    let red = red.descendants().filter(|node| node.attribute("class") == Some("r"));
    let red: Vec<&str> = red.filter_map(|node| node.text()).map(str::trim).collect();
    assert!(red.iter().any(|line| line.starts_with("off for ") && line.contains("ticket 7")), "{red:?}");
    assert!(!svg.contains(VLLM) && !svg.contains(BATCH));
}
