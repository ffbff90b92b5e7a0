//! Huge pages whose limits the runtime hides, as containerd does by default: the kubelet's sum on the pod's own
//! cgroup, the hugetlbfs mounts that tell which container it is for, and annotations where those do not.

use super::annotations::names_hugepages;
use super::{State, hides_hugepages};
use crate::model::{
    Bytes, ContainerFacts, ContainerName, ContainerRequest, HugepageSize, MemoryKind, PodFacts, PodUid,
};
use std::borrow::Cow;

/// The container with the limits it would show if the runtime hid none: for each size that it mounts, what the pod's
/// sum leaves beside what its other containers have been promised. Nothing is promised twice, and where an annotation
/// of the pod speaks of a size, it alone does.
pub(super) fn shown<'a>(
    state: &State,
    pod: &PodFacts,
    container: &'a ContainerFacts,
) -> Cow<'a, ContainerFacts> {
    let mut shown = Cow::Borrowed(container);
    if !hides_hugepages(container) {
        return shown;
    }
    let hints = &container.hugepages;
    for size in hints.mounted.iter().filter(|size| !names_hugepages(&pod.annotations, **size)) {
        let Some(sum) = hints.of_pod.get(size) else { continue };
        let left = sum.0.saturating_sub(promised_beside(state, &pod.uid, &container.name, *size));
        if left > 0 {
            shown.to_mut().resources.hugepage_limits.push((size.runtime_name(), left));
        }
    }
    shown
}

/// Why a container is promised none of its pod's huge pages although it may use them: it mounts none, and no annotation
/// says how much is its own. A program can map them without any mount, so that is worth saying. `None` where nothing of
/// the pod's sum is left, or all of it is told.
pub(super) fn untold(state: &State, pod: &PodFacts, container: &ContainerFacts) -> Option<String> {
    if !hides_hugepages(container) {
        return None;
    }
    let hints = &container.hugepages;
    let is_untold =
        |size: &HugepageSize| !hints.mounted.contains(size) && !names_hugepages(&pod.annotations, *size);
    let left = hints.of_pod.iter().filter(|(size, _)| is_untold(size)).filter_map(|(size, sum)| {
        let left = sum.0.saturating_sub(promised_beside(state, &pod.uid, &container.name, *size));
        (left > 0).then(|| {
            format!("{} of its pod's {size} pages are promised to no container: it mounts none", Bytes(left))
        })
    });
    let said: Vec<String> = left.collect();
    (!said.is_empty()).then(|| {
        format!("{} (annotation hugepages-SIZE.maitred.io says how much is its own)", said.join(", "))
    })
}

/// Checks what a container is to be promised against its pod's sum, which an annotation may not exceed.
///
/// # Errors
/// What is too much, and how much there is.
pub(super) fn within_pod(
    state: &State,
    pod: &PodFacts,
    container: &ContainerFacts,
    request: &ContainerRequest,
) -> Result<(), String> {
    for (size, bytes) in &request.hugepages {
        let Some(sum) = container.hugepages.of_pod.get(size) else { continue };
        let beside = promised_beside(state, &pod.uid, &container.name, *size);
        let left = Bytes(sum.0.saturating_sub(beside));
        if *bytes > left {
            return Err(format!(
                "annotation hugepages-{size}.maitred.io asks for {bytes}: the pod's limit is {sum}, and other containers \
                 of it have {} of that",
                Bytes(beside)
            ));
        }
    }
    Ok(())
}

/// What other containers of the pod have been promised of a size.
fn promised_beside(state: &State, pod: &PodUid, name: &ContainerName, size: HugepageSize) -> u64 {
    let others = state.ledger.iter().filter(|(key, _)| key.pod == *pod && key.container != *name);
    let blocks = others.flat_map(|(_, holding)| &holding.placement.memory);
    let of_size = blocks.filter(|block| block.kind == MemoryKind::Hugepages(size));
    of_size.fold(0, |sum, block| sum.saturating_add(block.bytes.0))
}
