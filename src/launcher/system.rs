//! The kernel, without a library between: the one file of the launcher that is not safe Rust.

use super::words::{MOST_NODES, Policy};
use core::arch::{asm, global_asm};

/// An error number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub usize);

impl Errno {
    pub const PERM: Self = Self(1);
    pub const NOENT: Self = Self(2);
    const NOEXEC: Self = Self(8);
    const NOMEM: Self = Self(12);
    pub const ACCES: Self = Self(13);
    pub const NOTDIR: Self = Self(20);
    pub const INVAL: Self = Self(22);
    pub const NAMETOOLONG: Self = Self(36);
    pub const NOSYS: Self = Self(38);

    /// Its name, of those that are met here.
    pub fn name(self) -> Option<&'static [u8]> {
        Some(match self {
            Self::PERM => b"EPERM",
            Self::NOENT => b"ENOENT",
            Self::NOEXEC => b"ENOEXEC",
            Self::NOMEM => b"ENOMEM",
            Self::ACCES => b"EACCES",
            Self::NOTDIR => b"ENOTDIR",
            Self::INVAL => b"EINVAL",
            Self::NAMETOOLONG => b"ENAMETOOLONG",
            Self::NOSYS => b"ENOSYS",
            _ => return None,
        })
    }
}

/// A list of strings that the kernel put on the stack of a new process: pointers, the last one null.
#[derive(Clone, Copy)]
pub struct Vector(*const *const u8);

impl Vector {
    /// The string at that place; `None` from the end on.
    pub fn get(self, at: usize) -> Option<&'static [u8]> {
        let mut here = self;
        for _ in 0..at {
            here.first()?;
            here = here.next();
        }
        here.first()
    }

    /// The list from that place on, which must not be beyond its end.
    pub fn after(self, at: usize) -> Self {
        let mut here = self;
        for _ in 0..at {
            here = here.next();
        }
        here
    }

    fn first(self) -> Option<&'static [u8]> {
        // SAFETY: within the list or at its null, which is a pointer all the same.
        let start = unsafe { *self.0 };
        if start.is_null() {
            return None;
        }
        let mut len = 0;
        // SAFETY: the kernel ends each string with a zero; nothing is read beyond it.
        while unsafe { *start.add(len) } != 0 {
            len += 1;
        }
        // SAFETY: the bytes just walked; they lie on the initial stack, which stays and is not written to.
        Some(unsafe { core::slice::from_raw_parts(start, len) })
    }

    fn next(self) -> Self {
        // SAFETY: callers go no further than the null.
        Self(unsafe { self.0.add(1) })
    }
}

/// The environment.
#[derive(Clone, Copy)]
pub struct Env(Vector);

impl Env {
    pub fn get(self, name: &[u8]) -> Option<&'static [u8]> {
        let mut here = self.0;
        while let Some(variable) = here.first() {
            if let Some(value) = variable.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"=")) {
                return Some(value);
            }
            here = here.next();
        }
        None
    }
}

#[cfg(target_arch = "x86_64")]
mod call {
    pub const WRITE: usize = 1;
    pub const MMAP: usize = 9;
    pub const MUNMAP: usize = 11;
    pub const MINCORE: usize = 27;
    pub const EXECVE: usize = 59;
    pub const EXIT_GROUP: usize = 231;
    pub const SET_MEMPOLICY: usize = 238;
}

#[cfg(target_arch = "aarch64")]
mod call {
    pub const WRITE: usize = 64;
    pub const EXIT_GROUP: usize = 94;
    pub const MUNMAP: usize = 215;
    pub const EXECVE: usize = 221;
    pub const MMAP: usize = 222;
    pub const MINCORE: usize = 232;
    pub const SET_MEMPOLICY: usize = 237;
}

// The kernel enters here with the stack pointer at argc; a call needs it on a multiple of 16.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".globl _start",
    "_start:",
    "xor %ebp, %ebp",
    "mov %rsp, %rdi",
    "and $-16, %rsp",
    "call {begin}",
    "ud2",
    begin = sym begin,
    options(att_syntax)
);

#[cfg(target_arch = "aarch64")]
global_asm!(
    ".globl _start",
    "_start:",
    "mov x29, #0",
    "mov x0, sp",
    "and sp, x0, #-16",
    "bl {begin}",
    "brk #1",
    begin = sym begin
);

/// argc, the arguments, a null, the environment, a null.
extern "C" fn begin(stack: *const usize) -> ! {
    // SAFETY: `_start` hands over the initial stack pointer, and the kernel lays the stack out so.
    let (arguments, env) = unsafe {
        let count = *stack;
        let arguments = stack.add(1).cast::<*const u8>();
        (arguments, arguments.add(count + 1))
    };
    super::run(Vector(arguments), Env(Vector(env)))
}

/// Comparing slices calls it by this name, and no library brings it.
///
/// # Safety
/// Both point at `len` bytes.
// SAFETY: this is what C says of a function of this name, and there is no other one here.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, len: usize) -> i32 {
    for at in 0..len {
        // SAFETY: the caller's.
        let (one, other) = unsafe { (*one.add(at), *other.add(at)) };
        if one != other {
            return i32::from(one) - i32::from(other);
        }
    }
    0
}

/// Moving a large value calls it by this name where the machine has no instruction for it, as aarch64.
///
/// # Safety
/// Both point at `len` bytes, and do not overlap.
// SAFETY: this is what C says of a function of this name, and there is no other one here.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    for at in 0..len {
        // SAFETY: the caller's.
        unsafe { *to.add(at) = *from.add(at) };
    }
    to
}

/// Clearing a large value calls it by this name, likewise.
///
/// # Safety
/// It points at `len` bytes.
// SAFETY: this is what C says of a function of this name, and there is no other one here.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, len: usize) -> *mut u8 {
    for at in 0..len {
        // SAFETY: the caller's. C says that the value is taken as a byte.
        unsafe { *to.add(at) = byte as u8 };
    }
    to
}

/// # Safety
/// The arguments are what the call of that number takes.
#[cfg(target_arch = "x86_64")]
unsafe fn raw(number: usize, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result;
    // SAFETY: the kernel's calling convention; it changes rcx, r11 and the result alone.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    result
}

/// # Safety
/// The arguments are what the call of that number takes.
#[cfg(target_arch = "aarch64")]
unsafe fn raw(number: usize, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result;
    // SAFETY: the kernel's calling convention; it changes the result alone.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack)
        );
    }
    result
}

/// # Safety
/// As [`raw`].
unsafe fn call(number: usize, arguments: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: the caller's.
    let result = unsafe { raw(number, arguments) };
    match usize::try_from(result) {
        Ok(result) => Ok(result),
        Err(_) => Err(Errno(result.unsigned_abs())),
    }
}

pub fn exit(status: i32) -> ! {
    loop {
        // SAFETY: takes a number and does not come back.
        let _ = unsafe { call(call::EXIT_GROUP, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

pub fn write_error(text: &[u8]) {
    // SAFETY: the kernel reads the slice's bytes and nothing more.
    let _ = unsafe { call(call::WRITE, [2, text.as_ptr().addr(), text.len(), 0, 0, 0]) };
}

/// Sets this task's memory policy, which the command inherits.
pub fn set_policy(policy: &Policy) -> Result<(), Errno> {
    // One more than the bits there are: the kernel takes one off.
    let (mask, bits) = (policy.nodes.as_ptr().addr(), MOST_NODES + 1);
    // SAFETY: the kernel reads a mask of MOST_NODES bits, which `nodes` has.
    unsafe { call(call::SET_MEMPOLICY, [policy.mode, mask, bits, 0, 0, 0]) }.map(|_| ())
}

/// Maps huge pages, touches them, and unmaps them again; how many of them were there.
pub fn populate(page_bytes: usize, pages: usize) -> Result<usize, Errno> {
    const READ_WRITE: usize = 3;
    const PRIVATE_ANONYMOUS: usize = 0x22;
    const POPULATE: usize = 0x8000;
    const HUGETLB: usize = 0x40000;
    let kind = HUGETLB | (page_bytes.trailing_zeros() as usize) << 26;
    let flags = PRIVATE_ANONYMOUS | POPULATE | kind;
    let bytes = page_bytes * pages;
    // SAFETY: a new mapping at a place of the kernel's choice.
    let start = unsafe { call(call::MMAP, [0, bytes, READ_WRITE, flags, usize::MAX, 0]) }?;
    // A page that was not there to be populated is missing without a word.
    let there = (0..pages).filter(|page| is_there(start + page * page_bytes)).count();
    // SAFETY: the mapping just made, of which nothing else knows.
    let _ = unsafe { call(call::MUNMAP, [start, bytes, 0, 0, 0, 0]) };
    Ok(there)
}

/// Whether a page of a mapping is in memory, by the smallest piece of it.
fn is_there(address: usize) -> bool {
    let mut told = [0u8];
    let (one_byte, into) = (1, told.as_mut_ptr().expose_provenance());
    // SAFETY: writes one byte for one page, into `told`.
    let asked = unsafe { call(call::MINCORE, [address, one_byte, into, 0, 0, 0]) };
    asked.is_ok() && told[0] & 1 == 1
}

/// Replaces this program with the one at `path`, which ends with a zero; comes back only with why not.
pub fn exec(path: &[u8], arguments: Vector, env: Env) -> Errno {
    let (arguments, env) = (arguments.0.addr(), env.0.0.addr());
    // SAFETY: the caller has ended `path` with a zero, and both lists are the kernel's own.
    let result = unsafe { call(call::EXECVE, [path.as_ptr().addr(), arguments, env, 0, 0, 0]) };
    result.err().unwrap_or(Errno::INVAL)
}
