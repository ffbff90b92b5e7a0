//! What can go wrong and the tests that would fail if it did harm. The first table's rows are those of the README's
//! "What happens when…"; the second's are what maitred never does. A test checks that each row and each test named
//! here exists; a test in quotes is a scenario of `integration`, with a real containerd.
//!
//! | fault | tests |
//! |---|---|
//! | maitred dies, between two containers or in the middle of one | `nothing_is_given_twice_and_nothing_is_lost_over_the_socket` `a_killed_daemon_leaves_nothing_to_be_given_twice` "maitred killed: nothing lost, the gap is repaired" "maitred killed: a crashed container gets its CPUs back" |
//! | containerd dies or restarts, or closes the connection, also within a message | `nothing_is_given_twice_and_nothing_is_lost_over_the_socket` `a_connection_cut_within_a_request_costs_that_request_alone` `nonsense_ends_the_connection_and_the_next_one_works` `an_answer_lost_with_its_connection_is_taken_back` "containerd restarted: nothing lost, maitred is back" |
//! | containerd never tells of a pod's end | `nothing_is_given_twice_and_nothing_is_lost_over_the_socket` `pods_that_ended_without_a_word_hold_nobody_up` "a GPU is free when its pod ends after a restart of containerd" |
//! | events come late, twice, never, or are about nobody | `the_late_word_of_an_attempt_that_has_ended_takes_nothing_from_the_next` `nothing_is_given_twice_and_nothing_is_lost_over_the_socket` `no_facts_panic_and_none_outlive_their_pod` `a_removed_container_has_stopped_and_a_removed_pod_has_ended` |
//! | a thousand containers at once at a registration | `a_thousand_containers_are_taken_in_within_one_requests_time` `a_synchronize_in_chunks_is_one_event` |
//! | a decision takes too long, or panics | `a_late_decision_is_answered_by_the_fallback_and_taken_back` `a_panic_is_an_answer_and_is_taken_back` `the_exempt_are_let_through_late_or_not` "a late decision refuses the pod and spares the system" "a panic refuses the pod and spares the system" |
//! | an update of a shared container fails, or its shim hangs | `after_a_start_stale_cgroups_are_corrected` `nobody_is_ever_on_anybodys_cpus` "a shared container with a stale cpuset is corrected" |
//! | another NRI plugin sets cpusets | `a_cpuset_of_another_plugin_is_left_and_told_and_kept_off_exclusive_cpus` `what_did_not_start_with_our_cpuset_is_made_without_it_the_next_time` `others_updates_may_fail_and_the_containers_own_may_not` |
//! | two maitreds | `a_second_daemon_ends_at_once_and_names_the_first` `the_second_daemon_is_told_who_the_first_is` `one_that_a_runtime_has_launched_takes_the_place_of_another` |
//! | a CPU goes offline, or comes back | `a_cpu_that_goes_offline_is_given_to_nobody_and_one_that_comes_back_is` `who_holds_a_cpu_that_went_offline_holds_it_still` `a_cpu_that_went_offline_is_not_given_again` `a_driver_a_mig_device_a_cdi_spec_and_a_cpu_are_seen_and_nothing_else_is` |
//! | huge pages are taken away | `hugepages_that_are_used_beside_the_books_are_not_promised` `hidden_pages_are_promised_only_where_they_are_free` "hugepages that are really gone are not promised" |
//! | NVML hangs, fails or is gone | `an_unusable_nvml_falls_back_to_sysfs_and_says_so` `a_gpu_whose_every_call_fails_is_named` `a_gpu_that_goes_and_comes_back_is_still_its_holders` "a driver that is slow, or comes later, is not missed" |
//! | the kubelet's podresources hang | `a_kubelet_that_hangs_costs_the_budget_and_the_checkpoint_speaks` "a kubelet that answers late or badly holds nobody up" |
//! | the machine or the configuration cannot be read any more | `a_first_setup_must_work_and_a_later_one_may_fail` |
//! | the log's disk is full, or nobody reads it | `who_does_not_read_the_log_holds_up_no_answer` `a_full_disk_for_the_log_ends_nothing` `a_stuck_reader_costs_lines_and_no_time` |
//! | `/run` is read-only, or becomes so | `a_run_that_becomes_read_only_is_told_and_placing_goes_on` `a_read_only_run_is_told_apart` |
//! | `/run/maitred` is emptied, or a file in it damaged | `deleting_everything_loses_only_the_hints` `foreign_and_damaged_files_are_named_and_skipped` `nothing_is_given_twice_and_nothing_is_lost_over_the_socket` |
//! | the clock jumps | `no_deadline_asks_the_clock` |
//!
//! | never | tests |
//! |---|---|
//! | stop or starve a running container | `with_every_cpu_taken_the_shared_ones_have_the_reserved_ones` `what_runs_is_not_taken_back` `nobody_is_ever_on_anybodys_cpus` |
//! | reject a control-plane or system container | `the_exempt_start_on_a_full_node_and_it_is_said` `nothing_is_given_twice_and_nothing_is_lost_over_the_socket` "static and system pods start on a full node" |
//! | let an NVML or sysfs fault reject CNI, CSI or operator pods | `an_undecided_container_is_refused_only_where_it_counts_on_us` `the_fallback_refuses_what_counts_on_us_and_nothing_else` |
//! | send a runtime update to a GPU container in legacy mode that would revoke its devices | `gpus_that_came_behind_the_runtimes_back_stay_when_the_pool_changes` |
//! | keep NVML open between reads | "NVML is not held open" |
//! | leave a base-spec hook or BinaryName pointing at a removed binary | `what_leads_to_maitred_is_found_wherever_it_stands` |
//! | put a file into /opt/nri/plugins from a package | `a_package_switches_nothing_on` |
//! | recommend required_plugins globally | `nothing_shipped_recommends_required_plugins` |

use std::path::{Path, PathBuf};

fn files(below: &str, found: &mut Vec<PathBuf>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in std::fs::read_dir(root.join(below)).unwrap().flatten() {
        let name = format!("{below}/{}", entry.file_name().to_string_lossy());
        match entry.path().is_dir() {
            true => files(&name, found),
            false => found.push(root.join(name)),
        }
    }
}

fn text_of(rooms: &[&str]) -> String {
    let mut all = Vec::new();
    rooms.iter().for_each(|room| files(room, &mut all));
    all.iter().filter_map(|file| std::fs::read_to_string(file).ok()).collect()
}

/// The first cells and the last of the tables' rows, heads left out.
fn rows(text: &str, prefix: &str, head: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(prefix)?.strip_prefix("| "));
    let cells = lines.filter_map(|line| line.trim_end_matches(" |").split_once(" | "));
    let cells = cells.map(|(first, rest)| (first.to_owned(), rest.to_owned()));
    cells.skip_while(|(first, _)| first != head).skip(1).collect()
}

fn own(head: &str) -> Vec<(String, String)> {
    rows(include_str!("faults.rs"), "//! ", head)
}

#[test]
fn the_readme_tells_of_each_fault_and_of_no_other() {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let (_, section) = readme.split_once("\n## What happens when…\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let names = |rows: Vec<(String, String)>| rows.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let told = names(rows(section, "", "what happens"));
    let tested: Vec<String> = names(own("fault")).into_iter().take_while(|name| name != "never").collect();
    assert_eq!(told, tested);
}

#[test]
fn every_test_named_here_exists_and_every_row_names_one() {
    let (tests, scenarios) = (text_of(&["src", "tests"]), text_of(&["integration/scenarios"]));
    let all = own("fault");
    assert_eq!(all.len(), 27, "{all:#?}");
    for (fault, named) in all.iter().filter(|(fault, _)| fault != "never") {
        let functions = named.split('`').skip(1).step_by(2);
        let quoted = named.split('"').skip(1).step_by(2);
        assert!(functions.clone().count() + quoted.clone().count() > 0, "{fault}");
        for name in functions {
            assert!(tests.contains(&format!("fn {name}(")), "{fault}: {name}");
        }
        for name in quoted {
            assert!(scenarios.contains(&format!("\"{name}\"")), "{fault}: {name}");
        }
    }
}

/// The wall clock is for telling people and for seeing that a file is another; all that waits waits by the monotonic
/// one.
#[test]
fn no_deadline_asks_the_clock() {
    const TELL: [&str; 7] = [
        "src/log/told.rs",
        "src/oci/journal.rs",
        "src/discover/sign.rs",
        "src/cli/status/read.rs",
        // Since when it is off.
        "src/store/off.rs",
        // How long ago a dead writer left a half-written file: swept a minute sooner or later.
        "src/store/file.rs",
        "src/store/allocations.rs",
    ];
    let mut all = Vec::new();
    files("src", &mut all);
    let inside = |file: &Path| file.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().display().to_string();
    for file in all {
        let (name, text) = (inside(&file), std::fs::read_to_string(&file).unwrap());
        let asks = ["SystemTime", "UNIX_EPOCH", "CLOCK_REALTIME"].iter().any(|word| text.contains(word));
        assert!(!asks || TELL.iter().any(|tell| name.starts_with(tell)), "{name} asks the wall clock");
    }
}

#[test]
fn nothing_shipped_recommends_required_plugins() {
    let shipped = text_of(&["hooks", "packaging"])
        + &std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    assert!(!shipped.contains("required_plugins"));
}
