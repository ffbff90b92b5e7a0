//! NVLinks: how many active ones lead where.

use super::{Ask, is_lacking, missing};
use crate::model::PciAddress;
use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError, nvml_try};
use std::collections::BTreeMap;

/// More links than any GPU has (`NVML_NVLINK_MAX_LINKS` is 18); the library ends the walk before.
const MOST_LINKS: u32 = 64;

/// The active links of one GPU.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::discover) struct Links {
    /// By the address of the other end.
    pub direct: BTreeMap<PciAddress, u32>,
    /// To a switch, through which every other GPU with such links is reached.
    pub switched: u32,
}

/// What is at the other end (`nvmlIntNvLinkDeviceType_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remote {
    Gpu,
    /// A POWER9 processor: no GPU is behind it.
    Processor,
    Switch,
    Unknown,
}

pub(super) fn read(device: &Device, ask: &mut Ask) -> Links {
    let mut links = Links::default();
    for number in 0..MOST_LINKS {
        match device.link_wrapper_for(number).is_active() {
            Ok(true) => count(device, number, &mut links, ask),
            Ok(false) => {}
            // Past the last link, or a GPU without any.
            Err(error) if is_lacking(&error) || matches!(error, NvmlError::InvalidArg) => break,
            Err(error) => {
                ask.warn("an NVLink's state", format!("link {number}: {error}"));
            }
        }
    }
    links
}

fn count(device: &Device, number: u32, links: &mut Links, ask: &mut Ask) {
    let remote = match remote(device, number) {
        Ok(remote) => remote,
        Err(error) if is_lacking(&error) => Remote::Unknown,
        Err(error) => return ask.warn("an NVLink's other end", format!("link {number}: {error}")),
    };
    match remote {
        Remote::Switch => links.switched += 1,
        Remote::Processor => {}
        // A library that does not tell still names the address, and only a GPU's will be looked up.
        Remote::Gpu | Remote::Unknown => {
            let there = device.link_wrapper_for(number).remote_pci_info();
            let there = ask.field("an NVLink's other end", there).map(|info| info.bus_id);
            match there.as_deref().map(str::parse) {
                Some(Ok(address)) => *links.direct.entry(address).or_default() += 1,
                Some(Err(error)) => ask.warn("an NVLink's other end", format!("link {number}: {error}")),
                None => {}
            }
        }
    }
}

/// What is at the other end of a link. nvml-wrapper 0.13 has this call, but hands the library a
/// temporary and answers "unknown" whatever it says, so it is made here.
#[allow(unsafe_code)] // One call of the library by its raw name.
fn remote(device: &Device, number: u32) -> Result<Remote, NvmlError> {
    let library = device.nvml().lib();
    let call = library.nvmlDeviceGetNvLinkRemoteDeviceType.as_ref();
    let call = call.map_err(missing)?;
    let mut kind = 255;
    // SAFETY: the function was loaded under its name from the library that gave out the handle; both
    // live as long as `device` borrows them, and `kind` outlives the call that writes it.
    let code = unsafe { call(device.handle(), number, &raw mut kind) };
    nvml_try(code)?;
    Ok(match kind {
        0 => Remote::Gpu,
        1 => Remote::Processor,
        2 => Remote::Switch,
        _ => Remote::Unknown,
    })
}
