use super::*;
use crate::decision::testing::{pod, whole};
use crate::decision::{CpusetUpdate, Observed, Pages, Seen};
use crate::model::{HugepageHints, MountFacts};
use crate::nri::BoxError;

/// One container's cgroup.
struct One(Option<Seen>);

impl Cgroups for One {
    fn observe(&self, _: &str) -> Result<Option<Observed>, BoxError> {
        Ok(None)
    }
    fn is_there(&self, _: &str) -> Result<bool, BoxError> {
        Ok(true)
    }
    fn is_pod_there(&self, _: &str) -> Result<bool, BoxError> {
        Ok(true)
    }
    fn hugepages(&self, _: &[(ContainerId, String)]) -> Result<Pages, BoxError> {
        Ok(Pages::default())
    }
    fn hugepage_hints(&self, _: &str, _: &[MountFacts]) -> Result<HugepageHints, BoxError> {
        Ok(HugepageHints::default())
    }
    fn effective(&self, cgroups_path: &str, _: &Placement) -> Result<Option<Seen>, BoxError> {
        match cgroups_path {
            "/kubepods/pod/a" => Ok(self.0.clone()),
            other => Err(format!("{other} was not asked about").into()),
        }
    }
    fn drop_pod_quota(&self, _: &str) -> Result<bool, BoxError> {
        Ok(false)
    }
    fn write(&self, _: &CpusetUpdate) -> Result<bool, BoxError> {
        Ok(true)
    }
}

fn due() -> Due {
    let started = Event::Started(pod("a"), whole("a", 2));
    let placement = Placement { cpus: "4-5".parse().unwrap(), ..Placement::default() };
    Due { placement, ..Due::of(&started).unwrap() }
}

fn running(cpus: &str) -> One {
    One(Some(Seen { cpus: Some(cpus.parse().unwrap()), ..Seen::default() }))
}

#[test]
fn a_container_is_held_against_its_own_placement() {
    assert_eq!(look(&running("4-5"), &due()), []);
    let drifts = look(&running("0-15"), &due());
    assert_eq!(drifts[0].to_string(), "effective cpuset.cpus 0-15, expected 4-5");
    assert_eq!(look(&One(None), &due()), [], "it has ended");
}

#[test]
fn only_starts_are_looked_at() {
    assert!(Due::of(&Event::Create(pod("a"), whole("a", 2))).is_none());
}

/// The thread waits until the command runs, and says what it finds with the container's names.
#[test]
fn a_drift_is_logged_with_how_many_there_were() {
    let (inbox, queue) = sync_channel(2);
    let since = Instant::now();
    inbox.send(due()).unwrap();
    drop(inbox);
    let lines = crate::log::testing::logged(|| work(&queue, &running("0-15"), &()));
    assert!(since.elapsed() >= SETTLE, "{:?}", since.elapsed());
    let line = &lines[0];
    assert_eq!(line["fields"]["drift"], "effective cpuset.cpus 0-15, expected 4-5");
    assert_eq!(line["fields"]["drifted_containers"], 1);
    assert_eq!(line["span"]["container_id"], "id-a");
}
