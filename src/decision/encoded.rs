//! What the kubelet encodes of a pod spec in what a runtime shows of a container.
//!
//! The QoS class is in the cgroup parent's name, the CPU request in the shares (`milli × 1024 / 1000`, at
//! least 2), the limit in quota/period (kubelet `pkg/kubelet/cm/helpers`).

use crate::model::{Bytes, HugepageSize, Qos, Resources};
use std::collections::BTreeMap;

/// The QoS class, from the cgroup parent's name alone: `…/kubepods/pod<uid>` or `kubepods-pod<uid>.slice` is
/// Guaranteed; anything that no kubelet makes is unknown.
pub(super) fn qos(cgroup_parent: &str) -> Qos {
    let last = cgroup_parent.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let words: Vec<&str> = match last.strip_suffix(".slice") {
        Some(slice) => slice.split('-').collect(),
        None => cgroup_parent.split('/').collect(),
    };
    let Some(at) = words.iter().rposition(|word| *word == "kubepods") else { return Qos::Unknown };
    match words[at + 1..] {
        ["burstable", pod, ..] if pod.starts_with("pod") => Qos::Burstable,
        ["besteffort", pod, ..] if pod.starts_with("pod") => Qos::BestEffort,
        [pod, ..] if pod.starts_with("pod") => Qos::Guaranteed,
        _ => Qos::Unknown,
    }
}

/// The CPU request in thousandths. The kubelet rounds down when it makes shares, so this rounds up; it is
/// exact. Two shares are the least there is and mean "none".
pub(super) fn cpu_milli(resources: &Resources) -> u64 {
    match resources.shares {
        None | Some(0..=2) => 0,
        Some(shares) => shares.saturating_mul(1000).div_ceil(1024),
    }
}

/// Whether the quota says the same as the shares; no quota says nothing. They differ where the pod, not the
/// container, carries the limits.
pub(super) fn quota_agrees(resources: &Resources, milli: u64) -> bool {
    match (resources.quota, resources.period) {
        (Some(quota), Some(period)) if quota > 0 && period > 0 => {
            quota.unsigned_abs().saturating_mul(1000) / period == milli
        }
        _ => true,
    }
}

/// Bytes of huge pages by size, of the sizes that are asked for.
pub(super) fn hugepages(resources: &Resources) -> Result<BTreeMap<HugepageSize, Bytes>, String> {
    let mut pages = BTreeMap::new();
    // The kubelet sends every size of the machine, zero for those not asked for.
    for (size, bytes) in resources.hugepage_limits.iter().filter(|(_, bytes)| *bytes > 0) {
        let size: HugepageSize = size.parse().map_err(|e| format!("hugepage limit: {e}"))?;
        if bytes % size.bytes() != 0 {
            return Err(format!("hugepage limit: {bytes} bytes are no whole number of {size} pages"));
        }
        pages.insert(size, Bytes(*bytes));
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::super::testing::limits;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_cgroup_parent_tells_the_class() {
        for (parent, class) in [
            ("/kubepods/pod1234", Qos::Guaranteed),
            ("/kubepods/burstable/pod1234", Qos::Burstable),
            ("/kubelet/kubepods/besteffort/pod1234/", Qos::BestEffort),
            ("kubepods-pod1234_5.slice", Qos::Guaranteed),
            ("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12.slice", Qos::Burstable),
            ("kubepods-besteffort-pod12.slice", Qos::BestEffort),
            ("", Qos::Unknown),
            ("/user.slice", Qos::Unknown),
            ("/kubepods", Qos::Unknown),
            ("/podlike/kubepodsx/pod1", Qos::Unknown),
            ("/kubepods/other/pod1", Qos::Unknown),
        ] {
            assert_eq!(qos(parent), class, "{parent}");
        }
    }

    proptest! {
        #[test]
        fn shares_give_back_the_request(milli in 3u64..400_000) {
            prop_assert_eq!(cpu_milli(&limits(milli, 0)), milli);
            prop_assert!(quota_agrees(&limits(milli, 0), milli));
        }
    }
}
