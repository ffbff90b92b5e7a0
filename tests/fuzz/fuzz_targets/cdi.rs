#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| maitred_fuzz::cdi(data));
