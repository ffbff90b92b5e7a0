//! Requests as the API server completes them, and the class the kubelet computes from them
//! (`pkg/apis/core/v1/defaults.go`, `pkg/apis/core/v1/helper/qos`).

use super::manifest::{Amounts, Container};
use crate::model::{Qos, Quantity};
use std::collections::BTreeMap;

/// The requests of a container: what it does not request it requests as much of as it is limited to.
pub fn requests(container: &Container) -> Amounts {
    let resources = container.resources.clone().unwrap_or_default();
    let mut requests = resources.limits.unwrap_or_default();
    requests.extend(resources.requests.unwrap_or_default());
    requests
}

/// The limits of a container.
pub fn limits(container: &Container) -> Amounts {
    container.resources.clone().unwrap_or_default().limits.unwrap_or_default()
}

/// The pod's class, from all its containers and init containers. Only CPU and memory count, and
/// nothing counts as absent.
pub fn qos<'a>(containers: impl Iterator<Item = &'a Container> + Clone) -> Qos {
    let requested = sums(containers.clone().map(requests));
    let limited = sums(containers.clone().map(limits));
    if requested.is_empty() && limited.is_empty() {
        return Qos::BestEffort;
    }
    let all_limited = containers.clone().all(|container| counted(&limits(container)).count() == 2);
    match all_limited && requested == limited {
        true => Qos::Guaranteed,
        false => Qos::Burstable,
    }
}

/// Why a pod is not Guaranteed, for people.
pub fn why_not_guaranteed<'a>(mut containers: impl Iterator<Item = &'a Container>) -> Option<String> {
    containers.find_map(|container| {
        let (requests, limits) = (requests(container), limits(container));
        let limit = |name: &str| limits.get(name).copied().filter(|amount| !amount.is_zero());
        ["cpu", "memory"].into_iter().find_map(|name| match (limit(name), requests.get(name)) {
            (None, _) => Some(format!("container {} has no {name} limit", container.name)),
            (Some(limit), Some(request)) if *request != limit => {
                Some(format!("container {} requests less {name} than its limit", container.name))
            }
            _ => None,
        })
    })
}

fn counted(amounts: &Amounts) -> impl Iterator<Item = (&str, Quantity)> {
    let counts = |(name, amount): &(&String, &Quantity)| {
        matches!(name.as_str(), "cpu" | "memory") && !amount.is_zero()
    };
    amounts.iter().filter(counts).map(|(name, amount)| (name.as_str(), *amount))
}

fn sums(all: impl Iterator<Item = Amounts>) -> BTreeMap<String, u128> {
    let mut sums = BTreeMap::new();
    for amounts in all {
        for (name, amount) in counted(&amounts) {
            *sums.entry(name.to_owned()).or_default() += amount.nanos();
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(requests: &[(&str, &str)], limits: &[(&str, &str)]) -> Container {
        let amounts = |pairs: &[(&str, &str)]| {
            let amount = |(name, text): &(&str, &str)| ((*name).to_owned(), text.parse().unwrap());
            (!pairs.is_empty()).then(|| pairs.iter().map(amount).collect::<Amounts>())
        };
        let resources =
            super::super::manifest::Resources { requests: amounts(requests), limits: amounts(limits) };
        Container { name: "main".into(), resources: Some(resources), restart_policy: None }
    }

    fn class(containers: &[Container]) -> Qos {
        qos(containers.iter())
    }

    const BOTH: [(&str, &str); 2] = [("cpu", "2"), ("memory", "1Gi")];

    #[test]
    fn limits_alone_are_guaranteed() {
        let pod = [container(&[], &BOTH)];
        assert_eq!(class(&pod), Qos::Guaranteed);
        assert_eq!(requests(&pod[0])["cpu"].units(), 2);
        assert_eq!(why_not_guaranteed(pod.iter()), None);
    }

    #[test]
    fn the_same_amount_in_another_spelling_is_the_same() {
        let pod = [container(&[("cpu", "2000m"), ("memory", "1024Mi")], &BOTH)];
        assert_eq!(class(&pod), Qos::Guaranteed);
    }

    #[test]
    fn one_container_without_limits_takes_the_class_from_all() {
        let pod = [container(&[], &BOTH), container(&[], &[])];
        assert_eq!(class(&pod), Qos::Burstable);
        assert_eq!(why_not_guaranteed(pod.iter()).unwrap(), "container main has no cpu limit");
    }

    #[test]
    fn a_request_below_its_limit_is_burstable() {
        let pod = [container(&[("cpu", "1")], &BOTH)];
        assert_eq!(class(&pod), Qos::Burstable);
        assert!(why_not_guaranteed(pod.iter()).unwrap().contains("requests less cpu than its limit"));
    }

    #[test]
    fn nothing_and_zero_and_other_resources_are_best_effort() {
        assert_eq!(class(&[container(&[], &[])]), Qos::BestEffort);
        assert_eq!(class(&[container(&[], &[("cpu", "0"), ("nvidia.com/gpu", "1")])]), Qos::BestEffort);
    }
}
