//! What a seccomp filter means for memory policies.

/// The one system call a launcher needs that container engines' default filters keep for CAP_SYS_NICE.
const CALL: &str = "set_mempolicy";

/// Whether a container's processes may set a memory policy themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PolicyCalls {
    /// Not told.
    #[default]
    Unknown,
    /// The filter lets `set_mempolicy` through, or there is none.
    Allowed,
    /// The engine's default filter, which does so with CAP_SYS_NICE only; whether it has that is not told.
    NeedSysNice,
    /// The filter does not.
    Denied,
}

/// One rule of a filter, as the runtime-spec's `linux.seccomp.syscalls` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeccompRule<'a> {
    /// What is done, such as `SCMP_ACT_ALLOW`.
    pub action: &'a str,
    /// Whether it applies to some arguments only.
    pub conditional: bool,
    /// The system calls it is about.
    pub names: Vec<&'a str>,
}

impl PolicyCalls {
    /// What a filter does: its first unconditional rule about the call, else its default action. A rule for some
    /// arguments only promises nothing.
    pub fn by_filter<'a>(default_action: &str, mut rules: impl Iterator<Item = SeccompRule<'a>>) -> Self {
        let rule = rules.find(|rule| !rule.conditional && rule.names.contains(&CALL));
        match rule.map_or(default_action, |rule| rule.action) {
            "SCMP_ACT_ALLOW" | "SCMP_ACT_LOG" => Self::Allowed,
            _ => Self::Denied,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule<'a>(action: &'a str, conditional: bool, names: &[&'a str]) -> SeccompRule<'a> {
        SeccompRule { action, conditional, names: names.to_vec() }
    }

    #[test]
    fn the_rule_about_the_call_decides_and_else_the_default() {
        let (allow, errno) = ("SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO");
        let others = rule(allow, false, &["mmap", "execve"]);
        let ours = rule(allow, false, &["mbind", "set_mempolicy"]);
        let some = rule(allow, true, &["set_mempolicy"]);
        let denies = rule(errno, false, &["set_mempolicy"]);
        for (default, rules, expected) in [
            (errno, vec![others.clone()], PolicyCalls::Denied),
            (errno, vec![others.clone(), ours], PolicyCalls::Allowed),
            (errno, vec![some], PolicyCalls::Denied),
            (allow, vec![others], PolicyCalls::Allowed),
            (allow, vec![denies], PolicyCalls::Denied),
            ("SCMP_ACT_LOG", vec![], PolicyCalls::Allowed),
        ] {
            assert_eq!(
                PolicyCalls::by_filter(default, rules.clone().into_iter()),
                expected,
                "{default} {rules:?}"
            );
        }
    }
}
