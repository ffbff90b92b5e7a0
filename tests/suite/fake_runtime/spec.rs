//! What a runtime makes of an adjustment: the part of an OCI spec that decides which devices a container gets,
//! edited as NRI's own generator edits it.
//!
//! Nodes, mounts and variables whose name begins with `-` are taken away; a node that is added brings an allow
//! rule, and one that is taken away leaves its allow rule behind; rules are read in order and the last that
//! matches counts; CDI names are expanded after everything else.

use maitred::nri::proto::{
    Container, ContainerAdjustment, LinuxDevice, LinuxDeviceCgroup, Mount, OptionalInt64,
};
use protobuf::MessageField;
use std::collections::BTreeMap;

/// A device node's kind and numbers.
pub type Numbers = (i64, i64);

/// The nodes that each CDI name stands for.
pub type Cdi = BTreeMap<String, Vec<(String, Numbers)>>;

/// What of a container's spec decides about devices.
#[derive(Debug, Clone, Default)]
pub struct Spec {
    pub env: BTreeMap<String, String>,
    pub mounts: Vec<String>,
    pub devices: BTreeMap<String, Numbers>,
    rules: Vec<LinuxDeviceCgroup>,
}

/// What happens when the container opens a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    Allowed,
    Absent,
    Denied,
}

fn number(value: i64) -> MessageField<OptionalInt64> {
    MessageField::some(OptionalInt64 { value, ..Default::default() })
}

fn removed(name: &str) -> Option<&str> {
    name.strip_prefix('-')
}

impl Spec {
    /// As the runtime has it when it asks the plugin: CDI names of the CRI fields are expanded already.
    pub fn before(container: &Container) -> Self {
        let mut spec = Self::default();
        let pairs = container.env.iter().filter_map(|entry| entry.split_once('='));
        spec.env = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        spec.mounts = container.mounts.iter().map(|mount| mount.destination.clone()).collect();
        // Everything is forbidden that nothing allows.
        let everything = LinuxDeviceCgroup { access: "rwm".into(), ..Default::default() };
        spec.rules.push(everything);
        for device in &container.linux.devices {
            spec.add(&device.path, (device.major, device.minor));
        }
        spec
    }

    fn add(&mut self, path: &str, (major, minor): Numbers) {
        self.devices.insert(path.to_owned(), (major, minor));
        self.rules.push(LinuxDeviceCgroup {
            allow: true,
            type_: "c".into(),
            major: number(major),
            minor: number(minor),
            access: "rwm".into(),
            ..Default::default()
        });
    }

    /// Edits it as the adjustment says.
    pub fn adjusted(mut self, adjust: &ContainerAdjustment, cdi: &Cdi) -> Self {
        for variable in &adjust.env {
            match removed(&variable.key) {
                Some(name) => self.env.remove(name),
                None => self.env.insert(variable.key.clone(), variable.value.clone()),
            };
        }
        adjust.mounts.iter().for_each(|mount| self.mount(mount));
        adjust.linux.devices.iter().for_each(|device| self.device(device));
        self.rules.extend(adjust.linux.resources.devices.iter().cloned());
        for name in &adjust.cdi_devices {
            let nodes = cdi.get(&name.name).unwrap_or_else(|| panic!("no CDI spec has {}", name.name));
            nodes.iter().for_each(|(path, numbers)| self.add(path, *numbers));
        }
        self
    }

    fn mount(&mut self, mount: &Mount) {
        let at = removed(&mount.destination).unwrap_or(&mount.destination);
        self.mounts.retain(|other| other != at);
        if removed(&mount.destination).is_none() {
            self.mounts.push(mount.destination.clone());
        }
    }

    fn device(&mut self, device: &LinuxDevice) {
        match removed(&device.path) {
            Some(path) => drop(self.devices.remove(path)),
            None => self.add(&device.path, (device.major, device.minor)),
        }
    }

    /// How the container's `open` of that node ends.
    pub fn open(&self, path: &str) -> Open {
        match self.devices.get(path) {
            None => Open::Absent,
            Some(numbers) if self.allows(*numbers) => Open::Allowed,
            Some(_) => Open::Denied,
        }
    }

    /// Whether the cgroup lets it use a device, also by a node that it makes itself.
    pub fn allows(&self, (major, minor): Numbers) -> bool {
        let is = |wanted: &MessageField<OptionalInt64>, number: i64| {
            wanted.as_ref().is_none_or(|wanted| wanted.value < 0 || wanted.value == number)
        };
        let matches = |rule: &&LinuxDeviceCgroup| is(&rule.major, major) && is(&rule.minor, minor);
        self.rules.iter().rev().find(matches).is_some_and(|rule| rule.allow)
    }
}
