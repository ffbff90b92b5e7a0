//! A stand-in for libnvidia-ml.so: the C functions that nvml-wrapper 0.13 calls for maitred,
//! answered from a description file instead of a driver.
//!
//! Built with `cargo build --example fake_nvml` as `target/debug/examples/libfake_nvml.so`; load it
//! with `Nvml::builder().lib_path(…)` or install it as `libnvidia-ml.so.1`.
//!
//! The file is named by `FAKE_NVML_CONFIG` (default `/etc/fake-nvml.json`) and is read again at each
//! nvmlInit that finds the library shut. Absent or malformed: nvmlInit answers DRIVER_NOT_LOADED, as
//! a machine without the driver does. Unknown keys are malformed. Everything but `uuid` and `pci`
//! may be left out:
//!
//! ```json
//! { "driver_version": "575.0-fake",
//!   "state_file": "/run/fake-nvml.state",
//!   "errors":    { "nvmlInit_v2": "LIB_RM_VERSION_MISMATCH", "nvmlDeviceGetNvLinkState": 3 },
//!   "delays_ms": { "nvmlInit_v2": 3000 },
//!   "gpus": [
//!     { "uuid": "GPU-0a…", "pci": "0000:21:00.0", "minor": 3, "name": "NVIDIA H100 80GB HBM3",
//!       "numa_node": 0, "cpus": "0-3", "own_numa_node": null,
//!       "nvlinks": [ { "remote": "0000:22:00.0", "type": "gpu", "active": true, "count": 2 } ],
//!       "ancestors": { "1": "single" },
//!       "mig": [ { "uuid": "MIG-7b…", "name": "1g.10gb", "index": 4, "gpu_instance": 7,
//!                  "compute_instance": 0 } ],
//!       "errors": { "nvmlDeviceGetUUID": "GPU_IS_LOST" } } ] }
//! ```
//!
//! - `numa_node` answers nvmlDeviceGetMemoryAffinity, `cpus` the two CPU affinity calls,
//!   `own_numa_node` nvmlDeviceGetNumaNodeId; absent or null is NOT_SUPPORTED.
//! - `mig` absent: NOT_SUPPORTED; `[]`: MIG is off; filled: it is on with these devices, each in the
//!   slot `index` of the GPU's seven (its position where absent); the other slots are NOT_FOUND.
//! - `errors`, for the library or one device: a number, or a name without `NVML_ERROR_`. An error
//!   on `nvmlDeviceGetHandleByIndex_v2` of one device makes that device unreachable by index.
//!   `*` is every function but init and shutdown, or every function that takes the device's handle.
//! - NVLinks are numbered through `nvlinks`, an entry with `count` N standing for N of them; a number
//!   past the end is INVALID_ARGUMENT. `type` is `gpu`, `switch` or `processor`.
//! - An older driver, which lacks a function, is a copy of this library without its name: see
//!   `older_library` in `tests/suite/discover/gpu_machines.rs`.
//! - `state_file` (or the environment's `FAKE_NVML_STATE`) receives
//!   `{"pid":P,"inits":N,"shutdowns":N,"open":N}` after each init and shutdown of a process:
//!   `open` 0 means that NVML is not held open.
//!
//! Whole machines are described in `machines/` beside this file: `nvswitch-8.json` (eight GPUs with 18
//! links each to switches), `cube-mesh-8.json` (a hybrid cube mesh: two links between some GPUs, one
//! between others, none between the rest), `mig.json`, `grace.json` (GPUs that are memory nodes) and
//! `odd.json` (a GPU of unknown place, and one that has fallen off the bus).

mod description;
mod device;

use description::{Code, Description, SUCCESS, UNINITIALIZED};
use std::ffi::{CStr, c_char, c_uint};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const DEFAULT_CONFIG: &str = "/etc/fake-nvml.json";
const DRIVER_NOT_LOADED: Code = 9;

/// What one process has done with the library so far.
struct Library {
    inits: u32,
    shutdowns: u32,
    description: Option<Arc<Description>>,
    state_file: Option<String>,
}

static LIBRARY: Mutex<Library> =
    Mutex::new(Library { inits: 0, shutdowns: 0, description: None, state_file: None });

fn library() -> MutexGuard<'static, Library> {
    LIBRARY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Library {
    fn open(&self) -> u32 {
        self.inits - self.shutdowns
    }

    fn note(&self) {
        let Some(path) = std::env::var("FAKE_NVML_STATE").ok().or_else(|| self.state_file.clone()) else {
            return;
        };
        let text = format!(
            "{{\"pid\":{},\"inits\":{},\"shutdowns\":{},\"open\":{}}}\n",
            std::process::id(),
            self.inits,
            self.shutdowns,
            self.open()
        );
        if let Err(error) = std::fs::write(&path, text) {
            eprintln!("fake_nvml: cannot write {path}: {error}");
        }
    }
}

/// The description, or none where the file is absent or malformed.
fn read_description() -> Option<Description> {
    let path = std::env::var("FAKE_NVML_CONFIG").unwrap_or_else(|_| DEFAULT_CONFIG.to_owned());
    let text = std::fs::read_to_string(&path).ok()?;
    serde_json::from_str(&text).inspect_err(|error| eprintln!("fake_nvml: {path}: {error}")).ok()
}

/// Runs one function's body against the open library: delay, injected error, then the answer.
fn answer(function: &str, body: impl FnOnce(&Description) -> Result<(), Code>) -> Code {
    let Some(description) = library().description.clone() else {
        return UNINITIALIZED;
    };
    if let Some(ms) = description.delays_ms.get(function) {
        std::thread::sleep(Duration::from_millis(*ms));
    }
    if let Some(code) = description::injected(&description.errors, function) {
        return code;
    }
    body(&description).err().unwrap_or(SUCCESS)
}

fn init(function: &str) -> Code {
    let mut library = library();
    if library.open() == 0 {
        let Some(description) = read_description() else {
            return DRIVER_NOT_LOADED;
        };
        if let Some(ms) = description.delays_ms.get(function) {
            std::thread::sleep(Duration::from_millis(*ms));
        }
        if let Some(injected) = description.errors.get(function) {
            return injected.code();
        }
        library.state_file = description.state_file.clone();
        library.description = Some(Arc::new(description));
    }
    library.inits += 1;
    library.note();
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> Code {
    init("nvmlInit_v2")
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> Code {
    init("nvmlInitWithFlags")
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> Code {
    let mut library = library();
    if library.open() == 0 {
        return UNINITIALIZED;
    }
    library.shutdowns += 1;
    library.note();
    if library.open() == 0 {
        library.description = None;
    }
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(code: Code) -> *const c_char {
    let text: &'static CStr = match code {
        SUCCESS => c"The operation was successful",
        DRIVER_NOT_LOADED => c"NVIDIA driver is not loaded",
        _ => c"An error of the stand-in NVML library",
    };
    text.as_ptr()
}

/// # Safety
/// `version` must point to `length` writable bytes, as in nvml.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) -> Code {
    answer("nvmlSystemGetDriverVersion", |description| {
        // SAFETY: the caller promises `length` writable bytes at `version`.
        unsafe { device::write_text(&description.driver_version, version, length) }
    })
}

/// # Safety
/// `version` must point to `length` writable bytes, as in nvml.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlSystemGetNVMLVersion(version: *mut c_char, length: c_uint) -> Code {
    // SAFETY: same promise as this function's own.
    unsafe { nvmlSystemGetDriverVersion(version, length) }
}
