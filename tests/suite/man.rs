//! The man pages under packaging/man say what `--help` says. `MAITRED_WRITE_MAN=1` writes them anew.

use clap::CommandFactory;
use std::path::{Path, PathBuf};

/// Every page by its file.
fn pages() -> Vec<(PathBuf, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/man");
    let mut root = maitred::cli::Cli::command();
    root.build();
    let name = |command: &clap::Command| command.get_display_name().unwrap_or("maitred").to_owned();
    let mut commands = vec![root.clone()];
    commands.extend(root.get_subcommands().filter(|command| command.get_name() != "help").cloned());
    let page = |command: clap::Command| {
        let file = dir.join(format!("{}.1", name(&command)));
        let mut text = Vec::new();
        clap_mangen::Man::new(command).render(&mut text).unwrap();
        (file, String::from_utf8(text).unwrap())
    };
    commands.into_iter().map(page).collect()
}

#[test]
fn the_man_pages_are_those_of_the_command_line() {
    let write = std::env::var_os("MAITRED_WRITE_MAN").is_some();
    for (file, text) in pages() {
        if write {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, &text).unwrap();
        }
        let found = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(found, text, "{}: write it anew with MAITRED_WRITE_MAN=1", file.display());
    }
}
