//! Who the runtime is and what follows from it: which events it knows, what it takes, how long it waits.

use super::proto::{ConfigureRequest, Event};
use crate::decision::Features;
use std::fmt;
use std::time::Duration;

/// What a runtime that names no timeout anywhere waits for: the default of all NRI versions.
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// A version by its first three numbers; whatever follows them is not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The first number.
    pub major: u32,
    /// The second.
    pub minor: u32,
    /// The third, zero where there is none.
    pub patch: u32,
}

impl Version {
    const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// Reads `v2.1.9`, `1.7.27~ds1`, `2.1.4-k3s1`; `None` where there are no two numbers.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix('v').unwrap_or(text).splitn(3, '.');
        let (major, minor) = (parts.next()?.parse().ok()?, leading_number(parts.next()?)?);
        let patch = parts.next().and_then(leading_number).unwrap_or(0);
        Some(Self::new(major, minor, patch))
    }
}

fn leading_number(text: &str) -> Option<u32> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text[..digits].parse().ok()
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The NRI that each containerd carries, by the first version that does; from 2.3 on the runtime says
/// it itself.
const NRI_OF_CONTAINERD: [(Version, Version); 9] = [
    (Version::new(1, 7, 0), Version::new(0, 3, 0)),
    (Version::new(1, 7, 7), Version::new(0, 4, 0)),
    (Version::new(1, 7, 14), Version::new(0, 6, 0)),
    (Version::new(1, 7, 16), Version::new(0, 6, 1)),
    (Version::new(1, 7, 26), Version::new(0, 8, 0)),
    (Version::new(2, 0, 0), Version::new(0, 8, 0)),
    (Version::new(2, 2, 0), Version::new(0, 10, 0)),
    (Version::new(2, 2, 1), Version::new(0, 11, 0)),
    (Version::new(2, 3, 0), Version::new(0, 12, 0)),
];

/// The runtime, as Configure describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its name, such as `containerd`.
    pub runtime: String,
    /// Its version, as it writes it.
    pub runtime_version: String,
    /// The NRI it speaks: what it says, else what its version is known to carry; `None` is unknown.
    pub nri: Option<Version>,
    /// How long it waits for an answer, where it says so: NRI does from 0.7 on.
    pub request_timeout: Option<Duration>,
    /// Our configuration, where the runtime launched us and has one for us; else empty.
    pub config: String,
}

impl Host {
    /// The containerd of that version, before it has said anything itself.
    #[must_use]
    pub fn containerd(version: &str) -> Self {
        Self::new(ConfigureRequest {
            runtime_name: "containerd".into(),
            runtime_version: version.into(),
            ..ConfigureRequest::default()
        })
    }

    pub(super) fn new(request: ConfigureRequest) -> Self {
        let known = || nri_of(&request.runtime_name, &request.runtime_version);
        let timeout = u64::try_from(request.request_timeout).ok().filter(|ms| *ms > 0);
        Self {
            nri: Version::parse(&request.nri_version).or_else(known),
            runtime: request.runtime_name,
            runtime_version: request.runtime_version,
            request_timeout: timeout.map(Duration::from_millis),
            config: request.config,
        }
    }

    /// What it takes; of an unknown version the least.
    #[must_use]
    pub fn features(&self) -> Features {
        let from = |first| self.nri.is_some_and(|nri| nri >= first);
        Features {
            memory_policy: from(Version::new(0, 12, 0)),
            args: from(Version::new(0, 10, 0)),
            remove_devices: from(Version::new(0, 10, 0)),
            add_cdi: from(Version::new(0, 7, 0)) && !self.drops_cdi(),
            rivals: true,
            ..Features::default()
        }
    }

    /// containerd before 1.7.30, and 2.0, carry an NRI that knows CDI devices and pass over them in silence.
    fn drops_cdi(&self) -> bool {
        let version = (self.runtime == "containerd").then(|| Version::parse(&self.runtime_version)).flatten();
        let old = |version: Version| {
            version < Version::new(1, 7, 30)
                || (Version::new(2, 0, 0)..Version::new(2, 1, 0)).contains(&version)
        };
        version.is_some_and(old)
    }

    /// The events we subscribe to. An unknown bit fails the registration, so only those the version
    /// knows.
    pub(super) fn events(&self) -> i32 {
        HANDLED.iter().fold(0, |mask, event| mask | bit(*event)) & self.known_events()
    }

    fn known_events(&self) -> i32 {
        match self.nri {
            Some(nri) if nri >= Version::new(0, 10, 0) => 0x3fff,
            _ => 0x7ff,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.runtime, self.runtime_version)?;
        match self.nri {
            Some(nri) => write!(f, " (NRI {nri})"),
            None => f.write_str(" (NRI version unknown)"),
        }
    }
}

/// How long a runtime waits for the answer to a call, by what it said when it configured us and by what came with the
/// call. Before NRI 0.7 the call alone tells.
pub(super) fn waits(configured: Option<Duration>, call: Option<Duration>) -> Duration {
    match (configured, call) {
        (Some(configured), Some(call)) => configured.min(call),
        (one, other) => one.or(other).unwrap_or(DEFAULT_REQUEST_TIMEOUT),
    }
}

/// Everything that is handled, and nothing else: a subscribed event without a handler fails its request.
const HANDLED: [Event; 8] = [
    Event::RUN_POD_SANDBOX,
    Event::STOP_POD_SANDBOX,
    Event::REMOVE_POD_SANDBOX,
    Event::CREATE_CONTAINER,
    Event::POST_START_CONTAINER,
    Event::UPDATE_CONTAINER,
    Event::STOP_CONTAINER,
    Event::REMOVE_CONTAINER,
];

fn bit(event: Event) -> i32 {
    1 << (event as i32 - 1)
}

fn nri_of(runtime: &str, version: &str) -> Option<Version> {
    let version = (runtime == "containerd").then(|| Version::parse(version)).flatten()?;
    let known = NRI_OF_CONTAINERD.iter().rev().find(|(first, _)| *first <= version);
    known.map(|(_, nri)| *nri)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, version: &str, nri: &str) -> Host {
        Host::new(ConfigureRequest {
            runtime_name: name.into(),
            runtime_version: version.into(),
            nri_version: nri.into(),
            ..Default::default()
        })
    }

    #[test]
    fn versions_come_in_many_spellings() {
        let text = |text: &str| Version::parse(text).map(|v| v.to_string());
        for (spelling, plain) in [
            ("v2.1.9", "2.1.9"),
            ("1.7.27~ds1", "1.7.27"),
            ("2.1.4-k3s1", "2.1.4"),
            ("v0.12", "0.12.0"),
            ("2.3-rc1", "2.3.0"),
        ] {
            assert_eq!(text(spelling).as_deref(), Some(plain), "{spelling}");
        }
        for none in ["", "v", "2", "a.b.c", "v.1.2", "-1.2.3", "99999999999.1.1", "1.é"] {
            assert_eq!(text(none), None, "{none}");
        }
    }

    #[test]
    fn the_nri_version_follows_from_containerds() {
        let nri = |version: &str| host("containerd", version, "").nri.map(|nri| nri.to_string());
        for (version, carried) in [
            ("1.7.6", "0.3.0"),
            ("v1.7.7", "0.4.0"),
            ("1.7.15", "0.6.0"),
            ("1.7.25", "0.6.1"),
            ("1.7.30", "0.8.0"),
            ("v2.1.9", "0.8.0"),
            ("2.2.0", "0.10.0"),
            ("2.2.3", "0.11.0"),
        ] {
            assert_eq!(nri(version).as_deref(), Some(carried), "{version}");
        }
        assert_eq!(nri("1.6.33"), None);
        assert_eq!(host("cri-o", "1.33.0", "").nri, None);
        assert_eq!(host("cri-o", "1.33.0", "v0.12.1").nri, Version::parse("0.12.1"));
    }

    #[test]
    fn no_host_gets_a_bit_it_does_not_know() {
        for host in
            [host("containerd", "1.7.0", ""), host("?", "", ""), host("containerd", "2.4.0", "0.12.2")]
        {
            let known = if host.nri >= Version::parse("0.10.0") { 0x3fff } else { 0x7ff };
            assert_eq!(host.events() & !known, 0, "{host}");
            assert_eq!(host.events(), 0b110_1100_1111, "{host}");
        }
    }

    #[test]
    fn an_older_runtimes_patience_is_that_of_its_calls() {
        let said = |milliseconds: i64| {
            let request = ConfigureRequest { request_timeout: milliseconds, ..Default::default() };
            Host::new(request).request_timeout
        };
        let seconds = Duration::from_secs;
        assert_eq!((said(0), said(-1), said(5000)), (None, None, Some(seconds(5))));
        assert_eq!(waits(said(0), Some(seconds(60))), seconds(60), "its owner has raised it");
        assert_eq!(waits(said(0), Some(seconds(1))), seconds(1));
        assert_eq!(waits(said(5000), Some(seconds(60))), seconds(5));
        assert_eq!(waits(said(5000), Some(seconds(1))), seconds(1));
        assert_eq!(waits(said(5000), None), seconds(5));
        assert_eq!(waits(None, None), seconds(2));
    }

    #[test]
    fn a_memory_policy_goes_only_to_those_who_take_it() {
        assert!(host("containerd", "2.3.0", "0.12.0").features().memory_policy);
        assert!(!host("containerd", "2.2.1", "").features().memory_policy);
        assert!(!host("somebody", "9.9.9", "").features().memory_policy);
    }

    #[test]
    fn devices_come_and_go_only_where_the_runtime_can() {
        let can = |version: &str| {
            let features = host("containerd", version, "").features();
            (features.add_cdi, features.remove_devices, features.args)
        };
        assert_eq!(can("1.7.29"), (false, false, false));
        assert_eq!(can("1.7.30"), (true, false, false));
        assert_eq!(can("2.0.5"), (false, false, false));
        assert_eq!(can("2.1.9"), (true, false, false));
        assert_eq!(can("2.2.0"), (true, true, true));
        assert!(host("cri-o", "1.33.0", "0.10.0").features().remove_devices);
    }
}
