//! Faults on demand, for the integration tests' debug builds: `MAITRED_FAULT` = `panic:create`,
//! `delay:create:MS` or `drop:create`. A release build has no such thing.

use crate::decision::Event;

/// What is to go wrong with every CreateContainer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The decision panics.
    #[cfg(debug_assertions)]
    Panic,
    /// The decision takes that long.
    #[cfg(debug_assertions)]
    Delay(std::time::Duration),
    /// The connection is closed instead of an answer.
    #[cfg(debug_assertions)]
    Drop,
}

impl Fault {
    /// What the environment asks for.
    #[cfg(debug_assertions)]
    pub fn from_env() -> Option<Self> {
        let text = std::env::var("MAITRED_FAULT").ok()?;
        let fault = Self::parse(&text);
        if fault.is_none() {
            tracing::warn!(
                MAITRED_FAULT = text,
                "not a fault: expected panic:create, delay:create:MS or drop:create"
            );
        }
        fault
    }

    #[cfg(not(debug_assertions))]
    pub fn from_env() -> Option<Self> {
        None
    }

    #[cfg(debug_assertions)]
    fn parse(text: &str) -> Option<Self> {
        match text.split(':').collect::<Vec<_>>()[..] {
            ["panic", "create"] => Some(Self::Panic),
            ["drop", "create"] => Some(Self::Drop),
            ["delay", "create", ms] => {
                ms.parse().ok().map(|ms| Self::Delay(std::time::Duration::from_millis(ms)))
            }
            _ => None,
        }
    }

    /// On the decision thread, before the decision.
    #[cfg(debug_assertions)]
    pub fn strike(fault: Option<Self>, event: &Event) {
        match (fault, event) {
            (Some(Self::Panic), Event::Create(..)) => panic!("MAITRED_FAULT=panic:create"),
            (Some(Self::Delay(time)), Event::Create(..)) => std::thread::sleep(time),
            _ => {}
        }
    }

    #[cfg(not(debug_assertions))]
    pub fn strike(_: Option<Self>, _: &Event) {}

    /// On the reactor: whether the connection ends here.
    #[cfg(debug_assertions)]
    pub fn drops(fault: Option<Self>, event: &Event) -> bool {
        fault == Some(Self::Drop) && matches!(event, Event::Create(..))
    }

    #[cfg(not(debug_assertions))]
    pub fn drops(_: Option<Self>, _: &Event) -> bool {
        false
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn reads_the_three_faults_and_no_other() {
        assert_eq!(Fault::parse("panic:create"), Some(Fault::Panic));
        assert_eq!(Fault::parse("drop:create"), Some(Fault::Drop));
        assert_eq!(
            Fault::parse("delay:create:1500"),
            Some(Fault::Delay(std::time::Duration::from_millis(1500)))
        );
        for text in ["", "panic", "panic:stop", "delay:create", "delay:create:-1"] {
            assert_eq!(Fault::parse(text), None, "{text}");
        }
    }
}
