//! The journal of verdicts: what was decided about whom and why, for `maitred explain` after the fact. One JSON
//! object a line, appended; bounded in bytes by keeping the last words about each container when it is full.
//!
//! Below `/run`, so it outlives the daemon and not a reboot; the log is what lasts longer.

use super::error::io;
use super::{Store, StoreError, file, turn};
use crate::model::one_line;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::Duration;

/// The file is never longer than this, in bytes.
pub const JOURNAL_MOST: u64 = 1 << 20;
/// What is kept of a full one.
const KEPT: usize = JOURNAL_MOST as usize / 2;
/// One line: above what the largest rejection needs, and cut short before it is written.
const LINE: usize = 64 << 10;
/// How long to wait for whoever writes it: that takes milliseconds when it is full.
const PATIENCE: Duration = Duration::from_millis(500);

/// One verdict, as the journal keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Told {
    /// When it was last given (RFC 3339, UTC).
    pub time: String,
    /// When the same was first given, as far as is remembered.
    pub first: String,
    /// How often the same was given, this time included.
    pub times: u64,
    /// The pod's name; empty where nobody told.
    pub pod: String,
    /// Its namespace.
    pub namespace: String,
    /// Its UID.
    pub pod_uid: String,
    /// The container; `None` is the pod as a whole.
    pub container: Option<String>,
    /// The attempt.
    pub container_id: Option<String>,
    /// Who decided: `nri`, `hook` or `runtime`.
    pub source: String,
    /// `placed`, `shared`, `rejected`, `exempt`, `undecided`, `adopted`, `repaired` or `released`.
    pub decision: String,
    /// Only said, not done: audit mode, or `maitred off`.
    pub simulated: bool,
    /// Worth a warning.
    pub warn: bool,
    /// Why, in one line.
    pub reason: String,
    /// What was asked for, in one line.
    pub request: String,
    /// What it got, in one line.
    pub placement: Option<String>,
    /// Its memory policy and the way it reaches the container.
    pub memory_policy: Option<String>,
    /// From the request's arrival to the decision, in microseconds.
    pub duration_us: Option<u64>,
    /// The evidence of a rejection, or of what would have been one.
    pub evidence: Option<Evidence>,
}

/// Why something did not fit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// The reason's word, such as `TopologyAffinityError`.
    pub reason: String,
    /// The node sets that were considered.
    pub candidates: Vec<CandidateTold>,
    /// The nearest laxer policy that admits, and the nodes it would use.
    pub weaker: Option<WeakerTold>,
    /// The largest request of the same shape that would have fitted.
    pub largest: Option<LargestTold>,
}

/// A node set that was considered.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CandidateTold {
    /// A kernel list of nodes.
    pub nodes: String,
    /// What it has too little of; nothing is another reason.
    pub short: Vec<ShortTold>,
}

/// One resource of which there was too little.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ShortTold {
    /// Its name in a pod spec.
    pub resource: String,
    /// How much the request takes: CPUs, bytes, devices.
    pub needed: u64,
    /// How much was free.
    pub available: u64,
    /// Who held it there, those with the most first.
    pub holders: Vec<HolderTold>,
}

/// Who held some of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct HolderTold {
    /// `namespace/pod`, or the pod's UID where its name is not known.
    pub pod: String,
    /// Its container.
    pub container: String,
    /// How much of it.
    pub amount: u64,
    /// It has stopped and its pod lives: the seat is kept for its return.
    pub stopped: bool,
}

/// A laxer policy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WeakerTold {
    /// Its word.
    pub policy: String,
    /// The nodes it would use.
    pub nodes: String,
}

/// What would have fitted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LargestTold {
    /// Where.
    pub nodes: String,
    /// How much of what.
    pub amounts: Vec<AmountTold>,
}

/// An amount of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AmountTold {
    /// Its name in a pod spec.
    pub resource: String,
    /// CPUs, bytes, devices.
    pub amount: u64,
}

/// What makes two verdicts the same one given twice.
type Same<'a> = (&'a str, Option<&'a str>, &'a str, bool, &'a str);

impl Told {
    fn same(&self) -> Same<'_> {
        (&self.pod_uid, self.container.as_deref(), &self.decision, self.simulated, &self.reason)
    }

    /// Each text in one line of bounded length: podman's and Docker's users call a container what they like.
    fn in_lines(&self) -> Self {
        let cut = |text: &String| one_line(text);
        let [pod, namespace, pod_uid, reason, request] =
            [&self.pod, &self.namespace, &self.pod_uid, &self.reason, &self.request].map(cut);
        let [container, container_id, placement, memory_policy] =
            [&self.container, &self.container_id, &self.placement, &self.memory_policy]
                .map(|text| text.as_ref().map(cut));
        let names = Self { pod, namespace, pod_uid, container, container_id, ..self.clone() };
        Self { reason, request, placement, memory_policy, ..names }
    }

    /// This one, given again: the later of two of the same.
    fn again(mut self, earlier: &Self) -> Self {
        self.times = self.times.max(1).saturating_add(earlier.times.max(1));
        self.first.clone_from(if earlier.first.is_empty() { &earlier.time } else { &earlier.first });
        self
    }
}

impl Store {
    /// Appends a verdict. Other processes may do so at the same moment.
    ///
    /// # Errors
    /// The file cannot be written, or somebody holds it: a container does not wait for a word about it.
    pub fn tell(&self, told: &Told) -> Result<(), StoreError> {
        let path = self.journal_path();
        let told = &told.in_lines();
        let mut line = serde_json::to_string(told).unwrap_or_default();
        if line.len() > LINE {
            // A machine of hundreds of nodes: the sentence says the same in short.
            line = serde_json::to_string(&Told { evidence: None, ..told.clone() }).unwrap_or_default();
        }
        line.push('\n');
        let mut journal = self.lock_journal()?;
        let length = journal.metadata().map_err(io("look at", &path))?.len();
        if length + line.len() as u64 > JOURNAL_MOST {
            // Under the old file's lock: who waits for it finds another file at the path, and opens that.
            file::replace(&path, &(shorter(self.journal()?) + &line))
        } else {
            journal.write_all(line.as_bytes()).map_err(io("write", &path))
        }
    }

    /// All that is remembered, oldest first, the same said again as one. Lines that are no verdicts are passed over.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn journal(&self) -> Result<Vec<Told>, StoreError> {
        let read = file::read_some(&self.journal_path(), JOURNAL_MOST, file::Links::Refused)?;
        let bytes = read.map(|(bytes, _)| bytes).unwrap_or_default();
        Ok(folded(bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok())))
    }

    /// The file that is at the path, locked.
    fn lock_journal(&self) -> Result<File, StoreError> {
        let path = self.journal_path();
        self.make_dir(&self.dir)?;
        loop {
            let mut options = OpenOptions::new();
            options.append(true).create(true).mode(0o600);
            let file = file::open_regular_with(&mut options, &path, file::Links::Refused)
                .map_err(io("open", &path))?;
            turn::wait(&file, &path, PATIENCE)?;
            let ours = file.metadata().map_err(io("look at", &path))?;
            let there = path.metadata().ok();
            if there.is_some_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino())) {
                return Ok(file);
            }
        }
    }

    fn journal_path(&self) -> PathBuf {
        self.dir.join("verdicts")
    }
}

/// The same given again is one, where it was last given.
fn folded(lines: impl Iterator<Item = Told>) -> Vec<Told> {
    let mut all: Vec<Option<Told>> = Vec::new();
    let mut last: BTreeMap<(String, Option<String>), usize> = BTreeMap::new();
    for told in lines {
        let key = (told.pod_uid.clone(), told.container.clone());
        let before = last.insert(key, all.len());
        // Only what stood last about the container: between two refusals it may have been placed.
        let before = before.filter(|at| all[*at].as_ref().is_some_and(|one| one.same() == told.same()));
        let told = match before.and_then(|at| all[at].take()) {
            Some(earlier) => told.again(&earlier),
            None => told,
        };
        all.push(Some(told));
    }
    all.into_iter().flatten().collect()
}

/// The last word about each container, then as many of the words before as there is room for; the newest stay.
fn shorter(told: Vec<Told>) -> String {
    let mut seen = std::collections::BTreeSet::new();
    let last: Vec<bool> =
        told.iter().rev().map(|one| seen.insert((one.pod_uid.clone(), one.container.clone()))).collect();
    let lines: Vec<String> =
        told.iter().rev().map(|one| serde_json::to_string(one).unwrap_or_default()).collect();
    let mut keep = vec![false; lines.len()];
    let mut room = KEPT;
    for round in [true, false] {
        for (at, line) in lines.iter().enumerate().filter(|(at, _)| last[*at] == round) {
            if line.len() < room {
                room -= line.len() + 1;
                keep[at] = true;
            }
        }
    }
    let kept = lines.iter().enumerate().rev().filter(|(at, _)| keep[*at]);
    kept.map(|(_, line)| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::scratch;
    use super::*;

    fn told(uid: &str, decision: &str, reason: &str, time: u32) -> Told {
        Told {
            time: format!("2026-01-01T00:00:{time:02}Z"),
            times: 1,
            pod_uid: uid.into(),
            container: Some("main".into()),
            decision: decision.into(),
            reason: reason.into(),
            ..Told::default()
        }
    }

    #[test]
    fn the_same_said_again_is_one_with_its_count() {
        let (_run, store) = scratch();
        store.tell(&told("a", "rejected", "full", 1)).unwrap();
        store.tell(&told("b", "placed", "fine", 2)).unwrap();
        store.tell(&Told { times: 3, ..told("a", "rejected", "full", 3) }).unwrap();
        let journal = store.journal().unwrap();
        assert_eq!(journal.len(), 2);
        assert_eq!(journal[0], told("b", "placed", "fine", 2));
        let again =
            Told { times: 4, first: "2026-01-01T00:00:01Z".into(), ..told("a", "rejected", "full", 3) };
        assert_eq!(journal[1], again);
        store.tell(&told("a", "placed", "fine", 4)).unwrap();
        store.tell(&told("a", "rejected", "full", 5)).unwrap();
        assert_eq!(store.journal().unwrap().len(), 4, "a refusal after a placement is another");
    }

    #[test]
    fn a_storm_keeps_the_file_bounded_and_the_last_word_about_others() {
        let (_run, store) = scratch();
        store.tell(&told("quiet", "placed", "long ago", 0)).unwrap();
        for number in 0..3000 {
            // Each refusal says another number, so none is the same as the one before.
            store.tell(&told("storm", "rejected", &format!("{number} {}", "x".repeat(1000)), 1)).unwrap();
            let length = store.journal_path().metadata().unwrap().len();
            assert!(length <= JOURNAL_MOST, "{length}");
        }
        let journal = store.journal().unwrap();
        assert_eq!(journal[0].reason, "long ago");
        assert!(journal.last().unwrap().reason.starts_with("2999 "));
        assert!(journal.len() > 300, "{}", journal.len());
    }

    #[test]
    fn names_of_any_length_leave_the_journal_bounded_and_the_others_in_it() {
        let (_run, store) = scratch();
        store.tell(&told("quiet", "placed", "long ago", 0)).unwrap();
        for letter in ["x", "\u{1b}", "\""] {
            let endless = letter.repeat(2 << 20);
            let mut one = told(&endless, "rejected", &endless, 1);
            (one.pod, one.container, one.request) = (endless.clone(), Some(endless.clone()), endless.clone());
            store.tell(&one).unwrap();
            let length = store.journal_path().metadata().unwrap().len();
            assert!(length <= JOURNAL_MOST, "{length}");
        }
        let journal = store.journal().unwrap();
        assert_eq!((journal.len(), journal[0].reason.as_str()), (4, "long ago"));
    }

    #[test]
    fn writers_that_meet_lose_nothing() {
        let (_run, store) = scratch();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let store = store.clone();
                scope.spawn(move || {
                    for at in 0..100 {
                        let filler = "y".repeat(2000);
                        let one = told(&format!("{writer}"), "rejected", &format!("{at} {filler}"), 1);
                        store.tell(&one).unwrap();
                    }
                });
            }
        });
        let journal = store.journal().unwrap();
        for writer in 0..4 {
            let own = journal.iter().rfind(|one| one.pod_uid == writer.to_string()).unwrap();
            assert!(own.reason.starts_with("99 "), "{}", &own.reason[..4]);
        }
    }

    /// Somebody stopped in the middle of a word must not keep containers from being made.
    #[test]
    fn who_holds_the_journal_is_not_waited_for_for_ever() {
        let (_run, store) = scratch();
        let held = store.lock_journal().unwrap();
        let error = store.tell(&told("a", "placed", "fine", 1)).unwrap_err();
        assert!(matches!(error, StoreError::Busy { .. }), "{error}");
        drop(held);
        store.tell(&told("a", "placed", "fine", 1)).unwrap();
    }

    #[test]
    fn what_is_no_verdict_is_passed_over_and_the_file_is_ours_alone() {
        let (_run, store) = scratch();
        store.tell(&told("a", "placed", "fine", 1)).unwrap();
        let mut file = OpenOptions::new().append(true).open(store.journal_path()).unwrap();
        file.write_all(b"{\"half\n\xff\xfe\n").unwrap();
        store.tell(&told("b", "placed", "fine", 1)).unwrap();
        assert_eq!(store.journal().unwrap().len(), 2);
        assert_eq!(store.journal_path().metadata().unwrap().mode() & 0o777, 0o600);
    }
}
