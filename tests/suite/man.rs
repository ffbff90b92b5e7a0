//! The man pages under packaging/man and the completions under packaging/completions say what `--help` says.
//! `MAITRED_BLESS=1` writes them anew.

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::path::{Path, PathBuf};

/// Below the options, in this order.
const SECTIONS: [&str; 4] = ["Examples", "Files", "Environment", "Exit status"];

fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging").join(file)
}

/// The command line, with everything that clap adds to it.
fn built() -> Command {
    let mut root = maitred::cli::Cli::command();
    root.build();
    root
}

/// The verbs and the program itself.
fn commands() -> Vec<Command> {
    let root = built();
    let verbs = root.get_subcommands().filter(|command| command.get_name() != "help").cloned();
    std::iter::once(root.clone()).chain(verbs).collect()
}

/// The sections of what `--help` says below the options: heading, and what is explained with its explanation.
fn sections(command: &Command) -> Vec<(String, Vec<(String, String)>)> {
    let text = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let mut sections: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let entries = sections.last_mut().map(|(_, entries)| entries);
        match (line.strip_prefix("      "), line.strip_prefix("  "), entries) {
            (Some(explanation), _, Some(entries)) => {
                let (_, told) = entries.last_mut().expect("something that is explained");
                *told = format!("{told} {explanation}").trim().to_owned();
            }
            (None, Some(entry), Some(entries)) => entries.push((entry.to_owned(), String::new())),
            _ => {
                let heading = line.strip_suffix(':').unwrap_or_else(|| panic!("{line:?} is no heading"));
                sections.push((heading.to_owned(), Vec::new()));
            }
        }
    }
    sections
}

fn page(command: Command) -> (PathBuf, String) {
    let name = command.get_display_name().unwrap_or("maitred").to_owned();
    let sections = sections(&command);
    let (verbs, root) = (command.get_subcommands().next().is_some(), name == "maitred");
    let man = Man::new(command.after_long_help(None).after_help(None)).title(name.to_uppercase());
    let mut text = Vec::new();
    man.render_title(&mut text).unwrap();
    man.render_name_section(&mut text).unwrap();
    man.render_synopsis_section(&mut text).unwrap();
    man.render_description_section(&mut text).unwrap();
    man.render_options_section(&mut text).unwrap();
    if verbs {
        man.render_subcommands_section(&mut text).unwrap();
    }
    let mut rest = Roff::new();
    for (heading, entries) in sections {
        rest.control("SH", [heading.to_uppercase().as_str()]);
        for (entry, told) in entries {
            rest.control("TP", []).text([bold(entry)]).text([roman(told)]);
        }
    }
    if !root {
        rest.control("SH", ["SEE ALSO"]).text([bold("maitred"), roman("(1)")]);
    }
    let mut rest = rest.to_roff();
    // The preamble is there once.
    rest = rest.lines().skip_while(|line| !line.starts_with(".SH")).collect::<Vec<_>>().join("\n") + "\n";
    (packaging(&format!("man/{name}.1")), String::from_utf8(text).unwrap() + &rest)
}

fn completions() -> Vec<(PathBuf, String)> {
    let shells = [(Shell::Bash, "maitred.bash"), (Shell::Zsh, "_maitred"), (Shell::Fish, "maitred.fish")];
    let script = |(shell, file): (Shell, &str)| {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut maitred::cli::Cli::command(), "maitred", &mut text);
        (packaging(&format!("completions/{file}")), String::from_utf8(text).unwrap())
    };
    shells.map(script).to_vec()
}

fn compare(files: Vec<(PathBuf, String)>) {
    let write = std::env::var_os("MAITRED_BLESS").is_some();
    for (file, text) in files {
        if write {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, &text).unwrap();
        }
        let found = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(found == text, "{}: write it anew with MAITRED_BLESS=1", file.display());
    }
}

#[test]
fn the_man_pages_are_those_of_the_command_line() {
    compare(commands().into_iter().map(page).collect());
}

#[test]
fn the_completions_are_those_of_the_command_line() {
    compare(completions());
}

#[test]
fn no_verb_has_lost_its_page_and_no_page_its_verb() {
    let pages = std::fs::read_dir(packaging("man")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = pages.collect();
    let mut expected: Vec<PathBuf> = commands().into_iter().map(|command| page(command).0).collect();
    pages.sort();
    expected.sort();
    assert_eq!(pages, expected);
}

#[test]
fn every_verb_shows_an_example_and_tells_its_exit_status() {
    for command in commands() {
        let name = command.get_display_name().unwrap_or("maitred").to_owned();
        let sections = sections(&command);
        let headings: Vec<&str> = sections.iter().map(|(heading, _)| heading.as_str()).collect();
        let ordered: Vec<&str> = SECTIONS.into_iter().filter(|heading| headings.contains(heading)).collect();
        assert_eq!(headings, ordered, "{name}: its text in src/cli/help.rs");
        for heading in ["Examples", "Exit status"] {
            assert!(headings.contains(&heading), "{name}: {heading} missing: expected it in src/cli/help.rs");
        }
        for (entry, told) in sections.iter().flat_map(|(_, entries)| entries) {
            assert!(!told.is_empty(), "{name}: {entry} is not explained");
        }
    }
}

/// An example that is refused teaches nothing.
#[test]
fn what_the_examples_type_is_understood() {
    for (entry, _) in commands()
        .iter()
        .flat_map(sections)
        .filter(|(heading, _)| heading == "Examples")
        .flat_map(|(_, entries)| entries)
    {
        for part in entry.split(" | ").filter_map(|part| part.split_once("maitred ")) {
            if !part.0.is_empty() && part.0 != "ssh gpu-7 " {
                continue;
            }
            let words = part.1.split([' ']).take_while(|word| !word.starts_with(['<', '>', '2']));
            // What stands between quotes is one word.
            let text = words.collect::<Vec<_>>().join(" ");
            let words: Vec<String> = text
                .split('\'')
                .enumerate()
                .flat_map(|(n, part)| match n % 2 {
                    0 => part.split_whitespace().map(str::to_owned).collect(),
                    _ => vec![part.to_owned()],
                })
                .collect();
            let parsed = maitred::cli::Cli::command()
                .try_get_matches_from(std::iter::once("maitred".to_owned()).chain(words));
            assert!(parsed.is_ok(), "{entry}: {}", parsed.unwrap_err());
        }
    }
}
