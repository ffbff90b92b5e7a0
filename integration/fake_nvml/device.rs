//! Devices: handles are numbers in a pointer's clothes and are never followed.

use super::answer;
use super::description::*;
use std::ffi::{CStr, c_char, c_uint, c_ulong};

/// `nvmlDevice_t`: 1 + GPU index, plus (1 + MIG slot) << 16 for a MIG device.
type Handle = *mut std::ffi::c_void;

fn gpu_handle(index: usize) -> Handle {
    std::ptr::without_provenance_mut(1 + index)
}

fn mig_handle(gpu: usize, slot: usize) -> Handle {
    std::ptr::without_provenance_mut(1 + gpu + ((1 + slot) << 16))
}

/// What a handle names.
struct Device<'d> {
    index: usize,
    gpu: &'d Gpu,
    mig: Option<&'d Mig>,
}

fn find(description: &Description, handle: Handle) -> Result<Device<'_>, Code> {
    let number = handle.addr();
    let index = (number & 0xffff).checked_sub(1).ok_or(INVALID_ARGUMENT)?;
    let gpu = description.gpus.get(index).ok_or(INVALID_ARGUMENT)?;
    let mig = match (number >> 16).checked_sub(1) {
        None => None,
        Some(slot) => Some(gpu.mig_at(slot).ok_or(INVALID_ARGUMENT)?),
    };
    Ok(Device { index, gpu, mig })
}

/// `answer` for a function of one device, whose own injected errors count too.
fn of_device(function: &str, handle: Handle, body: impl FnOnce(&Device) -> Result<(), Code>) -> Code {
    answer(function, |description| {
        let device = find(description, handle)?;
        match injected(&device.gpu.errors, function) {
            Some(code) => Err(code),
            None => body(&device),
        }
    })
}

/// # Safety
/// `to` is null or writable and aligned for a `T`.
unsafe fn put<T>(to: *mut T, value: T) -> Result<(), Code> {
    if to.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not null; the caller promises the rest.
    unsafe { to.write(value) };
    Ok(())
}

/// # Safety
/// `to` is null or points to `length` writable bytes.
pub(super) unsafe fn write_text(text: &str, to: *mut c_char, length: c_uint) -> Result<(), Code> {
    if to.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    if text.len() + 1 > length as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    // SAFETY: `length` bytes are writable at `to`, and text and its final zero fit.
    unsafe {
        to.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
        to.add(text.len()).write(0);
    }
    Ok(())
}

/// # Safety
/// `to` is null or points to `size` writable longs.
unsafe fn write_bits(bits: &[u32], size: c_uint, to: *mut c_ulong) -> Result<(), Code> {
    if to.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    let width = c_ulong::BITS;
    if bits.iter().any(|bit| bit / width >= size) {
        return Err(INSUFFICIENT_SIZE);
    }
    // SAFETY: the caller promises `size` writable longs, which a zeroing write makes initialised.
    let words = unsafe {
        to.write_bytes(0, size as usize);
        std::slice::from_raw_parts_mut(to, size as usize)
    };
    for bit in bits {
        words[(bit / width) as usize] |= 1 << (bit % width);
    }
    Ok(())
}

/// `nvmlPciInfo_t`.
#[repr(C)]
pub struct PciInfo {
    bus_id_legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    pci_device_id: c_uint,
    pci_subsystem_id: c_uint,
    bus_id: [c_char; 32],
}

fn text_field<const N: usize>(text: &str) -> [c_char; N] {
    let mut field = [0; N];
    for (to, from) in field.iter_mut().take(N - 1).zip(text.bytes()) {
        *to = from as c_char;
    }
    field
}

fn pci_info(address: &str) -> Result<PciInfo, Code> {
    let pci = Pci::parse(address).ok_or(UNKNOWN)?;
    let tail = format!("{:02X}:{:02X}.{:X}", pci.bus, pci.device, pci.function);
    Ok(PciInfo {
        bus_id_legacy: text_field(&format!("{:04X}:{tail}", pci.domain)),
        domain: pci.domain,
        bus: pci.bus,
        device: pci.device,
        pci_device_id: 0x2330_10de,
        pci_subsystem_id: 0x16c1_10de,
        bus_id: text_field(&format!("{:08X}:{tail}", pci.domain)),
    })
}

/// Declares exported functions of one device: `name(arguments) => |device| answer`.
macro_rules! device_functions {
    ($($name:ident($($arg:ident: $type:ty),*) => |$device:ident| $body:expr;)*) => { $(
        /// # Safety
        /// As nvml.h says of this function: every pointer is null or valid for what is written.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(handle: Handle, $($arg: $type),*) -> Code {
            of_device(stringify!($name), handle, |$device| {
                // SAFETY: the caller of this C function makes the promise each helper asks for.
                unsafe { $body }
            })
        }
    )* };
}

device_functions! {
    nvmlDeviceGetUUID(to: *mut c_char, length: c_uint) => |device|
        write_text(device.mig.map_or(&device.gpu.uuid, |mig| &mig.uuid), to, length);
    nvmlDeviceGetName(to: *mut c_char, length: c_uint) => |device|
        write_text(device.mig.and_then(|mig| mig.name.as_ref()).unwrap_or(&device.gpu.name), to, length);
    nvmlDeviceGetIndex(to: *mut c_uint) => |device| put(to, device.index as c_uint);
    nvmlDeviceGetMinorNumber(to: *mut c_uint) => |device|
        put(to, device.gpu.minor.unwrap_or(device.index as u32));
    nvmlDeviceGetPciInfo_v3(to: *mut PciInfo) => |device| put(to, pci_info(&device.gpu.pci)?);
    nvmlDeviceGetMemoryAffinity(size: c_uint, to: *mut c_ulong, _scope: c_uint) => |device|
        write_bits(&[device.gpu.numa_node.ok_or(NOT_SUPPORTED)?], size, to);
    nvmlDeviceGetCpuAffinity(size: c_uint, to: *mut c_ulong) => |device|
        write_bits(&near_cpus(device)?, size, to);
    nvmlDeviceGetCpuAffinityWithinScope(size: c_uint, to: *mut c_ulong, _scope: c_uint) => |device|
        write_bits(&near_cpus(device)?, size, to);
    nvmlDeviceGetNumaNodeId(to: *mut c_uint) => |device|
        put(to, device.gpu.own_numa_node.ok_or(NOT_SUPPORTED)?);
    nvmlDeviceGetMaxMigDeviceCount(to: *mut c_uint) => |device|
        put(to, device.gpu.mig_slots() as c_uint);
    nvmlDeviceIsMigDeviceHandle(to: *mut c_uint) => |device| put(to, device.mig.is_some() as c_uint);
    nvmlDeviceGetMigMode(now: *mut c_uint, pending: *mut c_uint) => |device| {
        let on = !device.gpu.mig.as_ref().ok_or(NOT_SUPPORTED)?.is_empty();
        put(now, on as c_uint).and_then(|()| put(pending, on as c_uint))
    };
    nvmlDeviceGetMigDeviceHandleByIndex(slot: c_uint, to: *mut Handle) => |device| {
        device.gpu.mig.as_ref().ok_or(NOT_SUPPORTED)?;
        device.gpu.mig_at(slot as usize).ok_or(NOT_FOUND)?;
        put(to, mig_handle(device.index, slot as usize))
    };
    nvmlDeviceGetDeviceHandleFromMigDeviceHandle(to: *mut Handle) => |device| {
        device.mig.ok_or(INVALID_ARGUMENT)?;
        put(to, gpu_handle(device.index))
    };
    nvmlDeviceGetGpuInstanceId(to: *mut c_uint) => |device|
        put(to, device.mig.and_then(|mig| mig.gpu_instance).ok_or(NOT_SUPPORTED)?);
    nvmlDeviceGetComputeInstanceId(to: *mut c_uint) => |device|
        put(to, device.mig.and_then(|mig| mig.compute_instance).ok_or(NOT_SUPPORTED)?);
    nvmlDeviceGetNvLinkState(link: c_uint, to: *mut c_uint) => |device|
        put(to, nvlink(device, link)?.active as c_uint);
    nvmlDeviceGetNvLinkRemotePciInfo_v2(link: c_uint, to: *mut PciInfo) => |device|
        put(to, pci_info(&nvlink(device, link)?.remote)?);
    nvmlDeviceGetNvLinkRemoteDeviceType(link: c_uint, to: *mut c_uint) => |device|
        put(to, nvlink(device, link)?.remote_type as c_uint);
}

fn near_cpus(device: &Device) -> Result<Vec<u32>, Code> {
    list_bits(device.gpu.cpus.as_ref().ok_or(NOT_SUPPORTED)?).ok_or(UNKNOWN)
}

fn nvlink<'d>(device: &Device<'d>, link: c_uint) -> Result<&'d NvLink, Code> {
    device.gpu.nvlink(link).ok_or(INVALID_ARGUMENT)
}

/// # Safety
/// `to` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetCount_v2(to: *mut c_uint) -> Code {
    answer("nvmlDeviceGetCount_v2", |description| {
        // SAFETY: as this function's own promise.
        unsafe { put(to, description.gpus.len() as c_uint) }
    })
}

/// Hands out the handle of the GPU that `matches`; its own injected error of `function` wins.
fn handle_of(function: &str, to: *mut Handle, matches: impl Fn(usize, &Gpu) -> bool) -> Code {
    answer(function, |description| {
        let all = &description.gpus;
        let index = (0..all.len()).find(|index| matches(*index, &all[*index])).ok_or(NOT_FOUND)?;
        if let Some(injected) = all[index].errors.get(function) {
            return Err(injected.code());
        }
        // SAFETY: the exported callers pass on their own promise that `to` is null or writable.
        unsafe { put(to, gpu_handle(index)) }
    })
}

/// # Safety
/// `to` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(wanted: c_uint, to: *mut Handle) -> Code {
    let code = handle_of("nvmlDeviceGetHandleByIndex_v2", to, |index, _| index == wanted as usize);
    // The real library calls an index past the end an invalid argument.
    if code == NOT_FOUND { INVALID_ARGUMENT } else { code }
}

/// # Safety
/// `text` is null or a zero-terminated string.
unsafe fn text_argument<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null and zero-terminated by the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// # Safety
/// `uuid` is null or a zero-terminated string; `to` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, to: *mut Handle) -> Code {
    // SAFETY: as this function's own promise.
    let Some(wanted) = (unsafe { text_argument(uuid) }) else {
        return INVALID_ARGUMENT;
    };
    let gpu = handle_of("nvmlDeviceGetHandleByUUID", to, |_, gpu| gpu.uuid == wanted);
    if gpu != NOT_FOUND {
        return gpu;
    }
    answer("nvmlDeviceGetHandleByUUID", |description| {
        for (index, gpu) in description.gpus.iter().enumerate() {
            let mut migs = gpu.mig.iter().flatten().enumerate();
            if let Some((position, mig)) = migs.find(|(_, mig)| mig.uuid == wanted) {
                // SAFETY: as this function's own promise.
                return unsafe { put(to, mig_handle(index, mig.slot(position))) };
            }
        }
        Err(NOT_FOUND)
    })
}

/// # Safety
/// `address` is null or a zero-terminated string; `to` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(address: *const c_char, to: *mut Handle) -> Code {
    // SAFETY: as this function's own promise.
    let Some(wanted) = (unsafe { text_argument(address) }).and_then(Pci::parse) else {
        return INVALID_ARGUMENT;
    };
    handle_of("nvmlDeviceGetHandleByPciBusId_v2", to, |_, gpu| Pci::parse(&gpu.pci) == Some(wanted))
}

/// # Safety
/// `to` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetTopologyCommonAncestor(
    one: Handle,
    other: Handle,
    to: *mut c_uint,
) -> Code {
    answer("nvmlDeviceGetTopologyCommonAncestor", |description| {
        let (one, other) = (find(description, one)?, find(description, other)?);
        let stated = one.gpu.ancestors.get(&(other.index as u32));
        let stated = stated.or_else(|| other.gpu.ancestors.get(&(one.index as u32)));
        let same_node = one.gpu.numa_node.is_some() && one.gpu.numa_node == other.gpu.numa_node;
        let level = *stated.unwrap_or(if same_node { &Level::Node } else { &Level::System });
        // SAFETY: as this function's own promise.
        unsafe { put(to, level as c_uint) }
    })
}

/// # Safety
/// `to` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetP2PStatus(
    one: Handle,
    other: Handle,
    _index: c_uint,
    to: *mut c_uint,
) -> Code {
    const OK: c_uint = 0;
    const UNSUPPORTED: c_uint = 5;
    answer("nvmlDeviceGetP2PStatus", |description| {
        let (one, other) = (find(description, one)?, find(description, other)?);
        let far_end = Pci::parse(&other.gpu.pci);
        let linked = one.gpu.nvlinks.iter().any(|link| link.active && Pci::parse(&link.remote) == far_end);
        // SAFETY: as this function's own promise.
        unsafe { put(to, if linked { OK } else { UNSUPPORTED }) }
    })
}
