//! Paths as containerd writes them: relative ones, and ones with `*`.

use super::{DiscoverError, Root};
use std::path::{Component, Path};

/// Without the first slash and without `.` and `..`.
pub(super) fn clean(path: &Path) -> String {
    let mut names: Vec<&str> = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.extend(name.to_str()),
            Component::ParentDir => drop(names.pop()),
            _ => {}
        }
    }
    names.join("/")
}

/// The paths that match one with `*`, in the order of their names.
pub(super) fn matching(root: &Root, pattern: &str) -> Result<Vec<String>, DiscoverError> {
    let mut found = vec![String::new()];
    for part in pattern.split('/') {
        let mut next = Vec::new();
        for above in &found {
            let below =
                |name: &str| if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") };
            if !part.contains('*') {
                next.push(below(part));
                continue;
            }
            let mut names = root.names(above)?.unwrap_or_default();
            names.sort();
            next.extend(names.iter().filter(|name| matches(part, name)).map(|name| below(name)));
        }
        found = next;
    }
    Ok(found)
}

/// `*` stands for any number of characters; the other wildcards of Go's globs are taken as they are.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(before) else { return false };
    (0..=name.len()).filter(|at| name.is_char_boundary(*at)).any(|at| matches(rest, &name[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_part_of_one_name() {
        for (pattern, name, fits) in [
            ("*.toml", "a.toml", true),
            ("*.toml", ".toml", true),
            ("*.toml", "a.toml.bak", false),
            ("a*b*c", "aXbbYc", true),
            ("a*b*c", "acb", false),
            ("ä*", "äö", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
        assert_eq!(clean(Path::new("/etc/containerd/.././x/y.toml")), "etc/x/y.toml");
    }
}
