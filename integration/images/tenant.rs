//! The only program of the sandbox image and the test image: one static binary, no shell, no library.
//!
//! `tenant pause` waits; `tenant exit CODE` ends; `tenant hold-huge KIB COUNT` and `tenant hold MIB`
//! map that much memory, touch it and wait, so that numa_maps shows where it came to lie; `tenant open
//! PATH...` says of each path how an attempt to open it ended, and waits. Everything else that a scenario
//! wants to know it reads from this process's own /proc entries.

use std::process::exit;

unsafe extern "C" {
    fn mmap(at: *mut u8, bytes: usize, protection: i32, flags: i32, file: i32, offset: i64) -> *mut u8;
    fn signal(number: i32, handler: usize) -> usize;
    fn pause() -> i32;
}

const READ_WRITE: i32 = 3;
const PRIVATE_ANONYMOUS: i32 = 0x22;
const HUGETLB: i32 = 0x40000;
const HUGE_SHIFT: u32 = 26;
const PAGE: usize = 4096;

extern "C" fn leave(number: i32) {
    exit(128 + number);
}

fn wait() -> ! {
    println!("ready");
    loop {
        // SAFETY: pause has no arguments and returns after a signal.
        unsafe { pause() };
    }
}

fn hold(bytes: usize, flags: i32) -> ! {
    // SAFETY: a fresh anonymous mapping; nothing else knows of it.
    let start = unsafe { mmap(std::ptr::null_mut(), bytes, READ_WRITE, PRIVATE_ANONYMOUS | flags, -1, 0) };
    if start.addr() == usize::MAX {
        println!("mmap of {bytes} bytes: {}", std::io::Error::last_os_error());
        exit(12);
    }
    for offset in (0..bytes).step_by(PAGE) {
        // SAFETY: within the mapping just made; volatile so that every page is really touched.
        unsafe { start.add(offset).write_volatile(1) };
    }
    wait()
}

/// `PATH: 0` if it opens, else `PATH: ERRNO`.
fn open_each(paths: &[String]) -> ! {
    for path in paths {
        let code = match std::fs::File::open(path) {
            Ok(_) => 0,
            Err(error) => error.raw_os_error().unwrap_or(-1),
        };
        println!("{path}: {code}");
    }
    wait()
}

fn main() {
    for number in [2, 15] {
        // SAFETY: installs a handler; process 1 of a container has no default actions to die by.
        unsafe { signal(number, leave as extern "C" fn(i32) as usize) };
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |position: usize| -> usize {
        let word = words.get(position).map(String::as_str);
        word.and_then(|word| word.parse().ok()).unwrap_or_else(|| {
            println!("tenant: argument {position} is to be a number: {words:?}");
            exit(2)
        })
    };
    match words.first().map(String::as_str) {
        None | Some("pause") => wait(),
        Some("open") => open_each(&words[1..]),
        Some("exit") => exit(number(1) as i32),
        Some("hold") => hold(number(1) << 20, 0),
        Some("hold-huge") => {
            let page_kib = number(1);
            hold(page_kib * 1024 * number(2), HUGETLB | ((page_kib * 1024).ilog2() << HUGE_SHIFT) as i32)
        }
        Some(other) => {
            println!("tenant: no such verb: {other}");
            exit(2)
        }
    }
}
