//! What the API server refuses of a container's resources
//! (`pkg/apis/core/validation`: `ValidateContainerResourceRequirements`).

use super::manifest::{Amounts, Container};
use crate::model::Quantity;

/// Something of a container's resources that no cluster takes: where below `resources`, and what was expected.
pub type Refused = (String, String);

/// The first thing that is not as it must be.
///
/// # Errors
/// That thing.
pub fn check(container: &Container) -> Result<(), Refused> {
    let resources = container.resources.clone().unwrap_or_default();
    let (requests, limits) = (resources.requests.unwrap_or_default(), resources.limits.unwrap_or_default());
    for (list, amounts) in [("limits", &limits), ("requests", &requests)] {
        for name in amounts.keys() {
            known(name).map_err(|expected| (format!("{list}.{name}"), expected))?;
        }
    }
    for (name, amount) in &requests {
        requested(name, *amount, limits.get(name))
            .map_err(|expected| (format!("requests.{name}"), expected))?;
    }
    let pages = |amounts: &Amounts| amounts.keys().find(|name| is_pages(name)).cloned();
    let has = |name: &str| limits.contains_key(name) || requests.contains_key(name);
    match pages(&limits).filter(|_| !has("cpu") && !has("memory")) {
        Some(name) => Err((format!("limits.{name}"), "expected cpu or memory beside huge pages".into())),
        None => Ok(()),
    }
}

fn known(name: &str) -> Result<(), String> {
    match matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_pages(name) || name.contains('/') {
        true => Ok(()),
        false => Err(
            "no resource of a container: expected cpu, memory, ephemeral-storage, hugepages-SIZE or a name \
                      with a domain, such as nvidia.com/gpu"
                .into(),
        ),
    }
}

/// CPU, memory and storage can be promised more than once; whatever is counted can not.
fn requested(name: &str, request: Quantity, limit: Option<&Quantity>) -> Result<(), String> {
    let counted = is_pages(name) || name.contains('/');
    match limit {
        Some(limit) if counted && request != *limit => {
            Err(format!("{request}: expected as much as the limit, {limit}"))
        }
        Some(limit) if request > *limit => {
            Err(format!("{request}: expected no more than the limit, {limit}"))
        }
        None if counted => Err(format!("{request}: expected a limit of as much beside it")),
        _ => Ok(()),
    }
}

fn is_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

#[cfg(test)]
mod tests {
    use super::super::manifest::Resources;
    use super::*;

    fn refused(requests: &[(&str, &str)], limits: &[(&str, &str)]) -> Option<String> {
        let amounts = |pairs: &[(&str, &str)]| {
            let amount = |(name, text): &(&str, &str)| ((*name).to_owned(), text.parse().unwrap());
            Some(pairs.iter().map(amount).collect::<Amounts>())
        };
        let resources = Resources { requests: amounts(requests), limits: amounts(limits) };
        let container = Container { name: "main".into(), resources: Some(resources), restart_policy: None };
        check(&container).err().map(|(path, expected)| format!("{path}: {expected}"))
    }

    #[test]
    fn requests_are_at_most_the_limits() {
        assert_eq!(
            refused(&[("cpu", "4")], &[("cpu", "3")]).unwrap(),
            "requests.cpu: 4: expected no more than the limit, 3"
        );
        assert_eq!(refused(&[("cpu", "1"), ("memory", "1Gi")], &[("cpu", "3")]), None);
    }

    #[test]
    fn what_is_counted_is_requested_as_it_is_limited() {
        for (requests, limits, expected) in [
            (
                &[("a.b/c", "1")][..],
                &[("a.b/c", "2")][..],
                Some("requests.a.b/c: 1: expected as much as the limit, 2"),
            ),
            (&[("a.b/c", "1")], &[], Some("requests.a.b/c: 1: expected a limit of as much beside it")),
            (&[("a.b/c", "2")], &[("a.b/c", "2")], None),
            (&[], &[("a.b/c", "2")], None),
        ] {
            assert_eq!(refused(requests, limits).as_deref(), expected);
        }
    }

    #[test]
    fn names_without_a_domain_are_the_few_there_are() {
        for name in ["cpus", "gpu", "mem", "hugepages", "storage"] {
            let told = refused(&[], &[(name, "1")]).unwrap();
            assert!(
                told.starts_with(&format!("limits.{name}: no resource of a container: expected cpu,")),
                "{told}"
            );
        }
        assert_eq!(
            refused(&[], &[("ephemeral-storage", "1Gi"), ("hugepages-2Mi", "2Mi"), ("cpu", "1")]),
            None
        );
    }

    #[test]
    fn huge_pages_come_with_cpu_or_memory() {
        let told = refused(&[], &[("hugepages-2Mi", "2Mi")]).unwrap();
        assert_eq!(told, "limits.hugepages-2Mi: expected cpu or memory beside huge pages");
    }
}
