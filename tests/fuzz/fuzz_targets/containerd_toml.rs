#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| maitred_fuzz::containerd_toml(data));
