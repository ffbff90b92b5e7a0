//! `maitred plan` of pods with init containers, sidecars and several app containers.

use super::{container, cpus, json};

fn one(name: &str, cpus: u32, more: &str) -> String {
    format!("{{name: {name}, resources: {{limits: {{cpu: {cpus}, memory: 1Gi}}}}{more}}}")
}

#[test]
fn init_containers_lend_what_they_had_and_sidecars_keep_it() {
    let init =
        [one("first", 8, ""), one("sidecar", 2, ", restartPolicy: Always"), one("second", 12, "")].join(", ");
    let apps = [one("a", 6, ""), one("b", 4, "")].join(", ");
    let yaml = format!(
        "kind: Pod\nmetadata: {{name: many}}\nspec: {{initContainers: [{init}], containers: [{apps}]}}"
    );
    for scope in ["pod", "container"] {
        let (status, plan, _) = json(&yaml, &format!("[policy]\nscope = \"{scope}\""), &[]);
        assert_eq!(status, 0, "{plan}");

        let of = |name: &str| cpus(container(&plan, "default/many", name));
        let [first, sidecar, second, a, b] = ["first", "sidecar", "second", "a", "b"].map(of);

        // 14 CPUs are the peak: the sidecar's 2 and the second init container's 12.
        let all = first.union(&sidecar).union(&second).union(&a).union(&b);
        assert_eq!(all.len(), 14, "{scope}: {all}");
        assert!(sidecar.is_subset(&first) && first.difference(&sidecar).is_subset(&second), "{scope}");
        assert!(a.union(&b).is_subset(&second) && a.is_disjoint(&b), "{scope}: {a} and {b}");
        assert!(sidecar.is_disjoint(&second), "{scope}");
        let mems = ["first", "sidecar", "second", "a", "b"]
            .map(|name| container(&plan, "default/many", name)["mems"].clone());
        assert!(mems.iter().all(|one| *one == mems[0]), "{scope}: {mems:?}");
    }
}
