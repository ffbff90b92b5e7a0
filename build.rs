//! Generates the NRI messages and service stubs from `src/nri/nri.proto`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
