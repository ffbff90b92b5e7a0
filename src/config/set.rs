//! A configuration with some of its keys set to other values.

use super::check;
use super::field::File;
use super::{Config, ConfigError};
use toml::{Table, Value};

/// The text of a file that is sound, with every `KEY=VALUE` in place of what it says. A value that is no TOML is text,
/// so `policy.topology=restricted` does without quotes.
pub(super) fn set(text: &str, sets: &[String]) -> Result<Config, ConfigError> {
    let mut table: Table =
        toml::from_str(text).map_err(|error| file(text, "the configuration").syntax(error))?;
    for one in sets {
        merge(&mut table, assignment(one).ok_or_else(|| ConfigError::Set { text: one.clone() })?);
    }
    let origin = format!("--set {}", sets.join(" --set "));
    check::checked(file(&table.to_string(), &origin))
}

fn file<'a>(text: &'a str, origin: &'a str) -> File<'a> {
    File { text, origin, edited: true }
}

fn assignment(text: &str) -> Option<Table> {
    let (key, value) = text.split_once('=').map(|(key, value)| (key.trim(), value.trim()))?;
    let quoted = Value::String(value.to_owned());
    let typed = toml::from_str(&format!("{key} = {value}")).ok();
    // A value must not end the line and begin another one.
    typed
        .filter(|table: &Table| table.len() == 1)
        .or_else(|| toml::from_str(&format!("{key} = {quoted}")).ok())
}

fn merge(into: &mut Table, from: Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(into)), Value::Table(from)) => merge(into, from),
            (_, value) => drop(into.insert(key, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CpuOption, Scope, TopologyPolicy};

    fn with(text: &str, sets: &[&str]) -> Result<Config, String> {
        let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
        set(text, &sets).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_set_is_in_place_of_what_the_file_says_and_the_rest_stays() {
        let text = "version = 1\n[policy]\ntopology = \"best-effort\"\nscope = \"container\"\n";
        let config = with(text, &["policy.topology=restricted", "cpu.reserved = \"0-3\""]).unwrap();
        assert_eq!(config.policy.topology, TopologyPolicy::Restricted);
        assert_eq!(config.policy.scope, Scope::Container);
        assert_eq!(config.cpu.reserved, Some("0-3".parse().unwrap()));
    }

    #[test]
    fn values_of_every_type_and_quoted_keys() {
        let config = with(
            "version = 1",
            &[
                "cpu.options=[\"full-pcpus-only\"]",
                "policy.prefer_closest_numa_nodes=true",
                "memory.reserved.1={memory=\"8Gi\"}",
                "failure.deadline_ms=200",
            ],
        );
        let config = config.unwrap();
        assert!(config.policy.cpu.has(CpuOption::FullPcpusOnly) && config.policy.prefer_closest);
        assert_eq!(config.failure.deadline.as_millis(), 200);
        assert_eq!(config.memory.reserved.len(), 1);
    }

    #[test]
    fn what_is_no_key_or_value_of_the_configuration_is_refused_by_name() {
        for (set, expected) in [
            ("topology", "--set topology: expected KEY=VALUE"),
            ("=3", "--set =3: expected KEY=VALUE"),
            ("policy.topology=sideways", "--set policy.topology=sideways: policy.topology"),
            ("policy.topolgy=none", "--set policy.topolgy=none: "),
            ("cpu=3", "--set cpu=3: "),
            ("mode=\"a\"\nversion=2", "--set mode"),
        ] {
            let error = with("version = 1", &[set]).unwrap_err();
            assert!(error.starts_with(expected) && error.lines().count() <= 2, "{error}");
        }
    }
}
