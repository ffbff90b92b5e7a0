//! Attacks, and the tests that would fail if they worked. Who attacks and what each can reach is told in
//! `packaging/security.md`; a test checks that each test named here exists.
//!
//! | attack | tests |
//! |---|---|
//! | a forged record: the annotation `allocation.maitred.io` | `a_record_nobody_but_us_can_have_written_is_refused` `a_record_nobody_wrote_is_refused_in_kubernetes` `a_record_that_does_not_hold_up_counts_for_nothing` |
//! | a forged note: the annotation `before.maitred.io` | `in_kubernetes_nothing_is_taken_back_and_nothing_noted` `a_note_that_nobody_wrote_changes_nothing` `a_tenant_is_no_podman` |
//! | forged files in the store | `foreign_and_damaged_files_are_named_and_skipped` `an_allocation_nobody_understands_is_not_taken_for_a_free_cpu` `a_word_that_cannot_be_is_told_and_not_believed` `deleting_everything_loses_only_the_hints` |
//! | another's GPU by environment, mount or CDI name | `no_spelling_is_a_way_to_anothers_gpu` `naming_a_gpu_by_hand_is_no_way_to_it` `a_name_in_the_environment_takes_no_gpu_from_another_pod` `a_gpu_that_is_held_cannot_be_named` |
//! | another's NIC by `PCIDEVICE_*` | `a_nics_name_in_the_environment_keeps_it_from_nobody` |
//! | a laxer policy or scope, fewer CPU options | `only_trusted_namespaces_may_loosen` `a_tenants_options_are_added_and_a_trusted_ones_replace` `a_lax_wish_nobody_granted_is_not_granted_when_it_runs` `opting_out_is_no_way_around_the_owners_rule` |
//! | more than its own requests, the GPUs of others, `all`, reserved CPUs | `an_annotation_asks_for_no_more_than_the_pod_has` `gpus_by_annotation_need_the_owners_pool` `a_pool_of_some_gpus_is_all_an_annotation_can_reach` `nothing_is_given_twice_and_nothing_reserved_or_offline` |
//! | an exemption by annotations that only a manager writes | `a_tenant_of_crio_is_in_no_namespace_but_its_own` `annotations_of_podmans_users_exempt_nobody` `what_podmans_users_write_is_not_taken_for_their_managers_word` `a_tenant_is_no_podman` |
//! | `../`, `~`, NUL, Unicode and control characters in names and ids | `no_name_and_no_id_leaves_the_store_or_writes_a_line_of_its_own` `a_hostile_key_stays_in_the_directory` `every_key_comes_back` |
//! | names and ids of any length | `a_key_longer_than_a_file_name_is_an_error` `an_id_of_any_length_is_seated` `an_id_of_any_length_can_be_part_of_a_files_name` `names_of_any_length_leave_the_journal_bounded_and_the_others_in_it` |
//! | a cgroup path that leads elsewhere | `no_path_climbs_out_or_names_the_root` `whatever_is_accepted_stays_below_the_mount` `a_cgroup_of_others_is_not_written` `a_cgroup_that_somebody_lives_in_is_not_taken_for_a_new_containers` |
//! | second lines and escapes in the log | `what_others_say_makes_no_second_line_for_people` `what_a_pod_says_makes_no_second_line_and_no_endless_one` `no_name_and_no_id_leaves_the_store_or_writes_a_line_of_its_own` |
//! | the same in the runtime's log | `a_runtimes_log_gets_a_line_of_its_kind` |
//! | the same on the terminal of who asks | `what_others_call_themselves_does_nothing_to_a_terminal` `a_name_does_nothing_to_a_terminal` |
//! | markup in pictures | `markup_in_a_name_stays_a_name` `control_characters_are_shown_as_missing` |
//! | a process that calls itself kubelet or containerd | `whoever_calls_itself_kubelet_is_none` `a_tenants_process_of_that_name_tells_nothing` |
//! | a socket of somebody else in the kubelet's place | `whoever_else_listens_there_is_no_kubelet` |
//! | a store that somebody made first, a link, a file in its place | `a_store_that_somebody_else_made_is_not_used_and_said` `a_directory_others_can_write_is_refused_by_name_and_mode` `a_directory_of_somebody_else_is_refused` `neither_a_link_nor_a_file_is_a_directory` |
//! | links, pipes and second names for files that are read or written | `only_regular_files_are_read` `nothing_that_could_be_waited_for_is_opened` `the_log_is_no_link_no_pipe_and_no_second_name` `a_pipe_does_not_hold_us_up` |
//! | thousands of variables, mounts and devices, a command of a megabyte | `a_large_container_is_seated_as_a_small_one_and_keeps_all_it_has` |
//! | annotations of 256 KiB | `an_endless_value_refuses_its_container_in_few_words` |
//! | messages over the limit, frames that lie | `a_frame_over_the_limit_ends_it_with_its_length` `the_largest_message_passes_and_one_more_byte_does_not` `our_own_message_over_the_limit_is_not_sent` `no_bytes_panic_or_hang` |
//! | CPU lists that ask for gigabytes | `hostile_lists_are_refused_without_their_memory` |
//! | JSON and YAML nested without end, aliases of aliases | `what_is_nested_without_end_is_an_error_and_no_overflow` |
//! | a journal or a log that grows | `a_storm_keeps_the_file_bounded_and_the_last_word_about_others` `a_flood_of_different_pods_is_said_once_and_no_more_is_remembered` `the_same_refusal_is_said_once_a_minute_with_its_count` |
//! | names as labels of metrics | `verdicts_are_counted_by_word_and_reason_and_what_ran_short` |
//! | one refused attack for others' containers | `no_name_and_no_id_leaves_the_store_or_writes_a_line_of_its_own` `an_endless_value_refuses_its_container_in_few_words` `a_malformed_annotation_refuses_that_pod_only` |

mod names;
mod places;
mod sizes;

use maitred::host::privileges::DAEMON;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn files(below: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(below).unwrap().flatten() {
        match entry.path() {
            path if path.is_dir() => files(&path, found),
            path if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            _ => {}
        }
    }
}

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(project().join(path)).unwrap()
}

/// The rows of the table below a heading of `packaging/security.md`: first cell and rest.
fn listed(heading: &str) -> BTreeMap<String, String> {
    let text = read("packaging/security.md");
    let (_, rest) = text.split_once(&format!("\n## {heading}\n")).expect(heading);
    let section = rest.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    rows.map(|(first, rest)| (first.to_owned(), rest.trim_end_matches(" |").to_owned())).collect()
}

#[test]
fn every_attack_has_a_test_that_exists() {
    let mut sources = Vec::new();
    ["src", "tests"].iter().for_each(|room| files(&project().join(room), &mut sources));
    let all: String = sources.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let rows: Vec<&str> =
        include_str!("security.rs").lines().filter_map(|line| line.strip_prefix("//! | ")).skip(1).collect();
    assert_eq!(rows.len(), 27, "{rows:#?}");
    for row in rows {
        let (_, tests) = row.rsplit_once(" | `").unwrap_or_else(|| panic!("{row}: names no test"));
        for name in tests.trim_end_matches(" |").split('`').filter(|name| !name.trim().is_empty()) {
            assert!(all.contains(&format!("fn {name}(")), "{row}: {name}");
        }
    }
}

/// The launcher is no_std and makes its system calls itself: it is listed as a whole.
#[test]
fn each_use_of_unsafe_is_listed_with_its_reason() {
    const LAUNCHER: &str = "src/launcher";
    let listed = listed("Unsafe code");
    let mut sources = vec![project().join("build.rs")];
    files(&project().join("src"), &mut sources);
    let mut found = std::collections::BTreeSet::new();
    for path in sources {
        let name = path.strip_prefix(project()).unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.lines().map(|line| line.split("//").next().unwrap());
        let blocks = code.filter(|line| line.contains("unsafe ") || line.contains("unsafe{")).count();
        match (name.starts_with(LAUNCHER), blocks) {
            (_, 0) => assert!(!text.contains("allow(unsafe_code)"), "{name} allows what it does not use"),
            (true, _) => drop(found.insert(LAUNCHER.to_owned())),
            (false, blocks) => {
                assert!(text.matches("SAFETY: ").count() >= blocks, "{name}: a block without its reason");
                found.insert(name);
            }
        }
    }
    assert_eq!(found.iter().collect::<Vec<_>>(), listed.keys().collect::<Vec<_>>());
    assert!(listed.values().all(|reason| reason.len() > 20), "{listed:?}");
    assert!(read("src/lib.rs").contains("#![deny(unsafe_code)]"));
}

#[test]
fn each_capability_that_is_kept_has_its_reason() {
    let listed = listed("Capabilities");
    let unit = read("packaging/systemd/maitred.service");
    let granted = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let mut granted: Vec<&str> = granted.split_whitespace().collect();
    granted.sort_unstable();
    assert_eq!(granted, listed.keys().collect::<Vec<_>>());
    let readme = read("README.md");
    for kept in DAEMON.iter().map(ToString::to_string) {
        assert!(listed.contains_key(&kept), "{kept}");
        assert!(readme.contains(&format!("gives up every capability but {kept}")), "{kept}");
    }
    assert_eq!(DAEMON.len(), 1, "the README's sentence names one");
}
