//! What the kubelet encodes of a pod spec in what a runtime shows of a container.
//!
//! The QoS class is in the cgroup parent's name, the CPU request in the shares (`milli × 1024 / 1000`, at
//! least 2), the limit in quota/period (kubelet `pkg/kubelet/cm/helpers`).

use crate::model::{Bytes, HugepageSize, Qos, Resources};
use std::collections::BTreeMap;

/// `MaxShares` of the kubelet (`pkg/kubelet/cm/helpers_linux.go`) and of the kernel.
const MOST_SHARES: u64 = 262_144;

/// The QoS class, from the cgroup parent's name alone: `…/kubepods/pod<uid>` or `kubepods-pod<uid>.slice` is
/// Guaranteed; anything that no kubelet makes is unknown.
#[must_use]
pub fn qos(cgroup_parent: &str) -> Qos {
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
/// exact. Two shares are the least there is and mean "none". The most there are say "256 CPUs or more"; how many
/// more only the limit tells, which is the request of those that get CPUs of their own.
pub(super) fn cpu_milli(resources: &Resources) -> u64 {
    match resources.shares {
        None | Some(0..=2) => 0,
        Some(shares) => {
            let milli = shares.saturating_mul(1000).div_ceil(1024);
            let more = quota_milli(resources).filter(|limit| shares == MOST_SHARES && *limit > milli);
            more.unwrap_or(milli)
        }
    }
}

/// The CPU limit in thousandths; `None` is no limit.
fn quota_milli(resources: &Resources) -> Option<u64> {
    let quota = u64::try_from(resources.quota?).ok().filter(|quota| *quota > 0)?;
    let period = resources.period.filter(|period| *period > 0)?;
    Some(quota.saturating_mul(1000) / period)
}

/// Whether the quota says the same as the shares; no quota says nothing. They differ where the pod, not the
/// container, carries the limits.
pub(super) fn quota_agrees(resources: &Resources, milli: u64) -> bool {
    quota_milli(resources).is_none_or(|limit| limit == milli)
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

    #[test]
    fn more_cpus_than_shares_can_say_are_asked_for_by_the_limit() {
        let most = |quota| Resources { shares: Some(262_144), quota, ..limits(1000, 0) };
        assert_eq!(cpu_milli(&most(Some(38_400_000))), 384_000);
        assert_eq!(cpu_milli(&most(Some(25_600_000))), 256_000);
        assert_eq!(cpu_milli(&most(Some(-1))), 256_000);
        assert!(quota_agrees(&most(Some(38_400_000)), 384_000));
    }

    proptest! {
        #[test]
        fn shares_give_back_the_request(milli in 3u64..400_000) {
            prop_assert_eq!(cpu_milli(&limits(milli, 0)), milli);
            prop_assert!(quota_agrees(&limits(milli, 0), milli));
        }
    }
}
