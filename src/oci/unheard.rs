//! Annotations that nothing follows from: outside Kubernetes nobody but the container's own user has written them,
//! and meant something.

use super::facts::Party;

const GPUS: &str = "gpus.maitred.io";
const GPU_LINK: &str = "gpu-link.maitred.io";
/// Between one of our keys and a container's name.
const OF_A_CONTAINER: &str = ".maitred.io/container.";

/// Says so in the log.
pub(super) fn warn(party: &Party) {
    for (annotation, why) in unheard(party) {
        tracing::warn!(container_id = %party.container.id, annotation, "the annotation is not followed: {why}");
    }
}

fn unheard(party: &Party) -> Vec<(&str, String)> {
    if party.in_kubernetes {
        return Vec::new();
    }
    let (name, keys) = (&party.container.name, party.pod.annotations.keys().map(String::as_str));
    let mut unheard: Vec<_> = keys
        .filter_map(|key| Some((key, key.split_once(OF_A_CONTAINER)?.1)))
        .filter(|(_, of)| *of != name.as_str())
        .map(|(key, of)| {
            (key, format!("it is for a container {of:?}, and outside Kubernetes this one is called {:?}: expected the key without what follows the slash", name.as_str()))
        })
        .collect();
    let has = |wanted: &str| {
        let mut keys = party.pod.annotations.keys();
        keys.any(|key| key.split('/').next() == Some(wanted))
    };
    if has(GPU_LINK) && !has(GPUS) {
        unheard.push((
            GPU_LINK,
            format!("it says how GPUs are linked that {GPUS} asks for: expected that, too"),
        ));
    }
    unheard
}

#[cfg(test)]
mod tests {
    use crate::oci::Bundle;
    use std::path::Path;

    fn unheard(annotations: &str) -> Vec<String> {
        let text = format!(r#"{{"annotations":{{{annotations}}}}}"#);
        let party = Bundle::parse(text.as_bytes(), Path::new("config.json")).unwrap().party("c1");
        super::unheard(&party).into_iter().map(|(key, why)| format!("{key}: {why}")).collect()
    }

    #[test]
    fn what_is_for_another_container_and_a_link_without_gpus_are_told() {
        assert_eq!(unheard(r#""gpus.maitred.io":"1","gpu-link.maitred.io":"any""#), [""; 0]);
        assert_eq!(unheard(r#""gpus.maitred.io/container.c1":"1","gpu-link.maitred.io/pod":"any""#), [""; 0]);
        let told = unheard(r#""gpus.maitred.io/container.x":"1""#);
        assert!(told.len() == 1 && told[0].contains("it is for a container \"x\""), "{told:?}");
        let told = unheard(r#""gpu-link.maitred.io":"nvlink""#);
        assert!(told.len() == 1 && told[0].starts_with("gpu-link.maitred.io: it says how"), "{told:?}");
        let in_kubernetes =
            r#""io.kubernetes.cri.container-type":"container","gpus.maitred.io/container.x":"1""#;
        assert_eq!(unheard(in_kubernetes), [""; 0]);
    }
}
