//! MIG devices: the parts a GPU is cut into.

use super::{Ask, is_lacking, missing};
use crate::model::Mig;
use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError, nvml_try};

/// `NVML_DEVICE_MIG_ENABLE`.
const ENABLED: u32 = 1;

/// The MIG devices of a GPU, by their index; none where it is in one piece.
pub(super) fn read(device: &Device, ask: &mut Ask) -> Vec<Mig> {
    let mode = ask.extra("the MIG mode", device.mig_mode());
    if mode.is_none_or(|mode| mode.current != ENABLED) {
        return Vec::new();
    }
    let most = ask.extra("the number of MIG devices", device.mig_device_count()).unwrap_or(0);
    let parts = (0..most).filter_map(|index| match device.mig_device_by_index(index) {
        Ok(part) => one(&part, index, ask),
        // The instances a GPU can have are numbered; not every number is in use.
        Err(NvmlError::NotFound) => None,
        Err(error) => {
            ask.warn("a MIG device", format!("MIG device {index}: {error}"));
            None
        }
    });
    parts.collect()
}

fn one(part: &Device, index: u32, ask: &mut Ask) -> Option<Mig> {
    let uuid = ask.field("a MIG device's UUID", part.uuid())?;
    let instance = instances(part).map_or_else(
        |error| {
            if !is_lacking(&error) {
                ask.warn("a MIG device's instances", format!("MIG device {index}: {error}"));
            }
            None
        },
        Some,
    );
    Some(Mig { index, uuid, instance })
}

/// GPU instance and compute instance. nvml-wrapper 0.13 loads both functions and wraps neither.
#[allow(unsafe_code)] // Two calls of the library by their raw names.
fn instances(part: &Device) -> Result<(u32, u32), NvmlError> {
    let library = part.nvml().lib();
    let gpu = library.nvmlDeviceGetGpuInstanceId.as_ref().map_err(missing)?;
    let compute = library.nvmlDeviceGetComputeInstanceId.as_ref().map_err(missing)?;
    let (mut gi, mut ci) = (0, 0);
    // SAFETY: both functions were loaded under their names from the library that gave out the handle, which lives
    // as long as `part` borrows it; each writes the number behind its pointer before the call ends.
    let codes = unsafe { (gpu(part.handle(), &raw mut gi), compute(part.handle(), &raw mut ci)) };
    nvml_try(codes.0)?;
    nvml_try(codes.1)?;
    Ok((gi, ci))
}
