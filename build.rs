//! Generates the NRI messages and service stubs from `src/nri/nri.proto`, and the CRI messages of
//! the integration scenarios from `integration/scenarios/cri.proto`.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    scenarios_cri();
}

/// Messages alone: the scenarios speak gRPC through h2, so no service stub is wanted.
fn scenarios_cri() {
    let proto = "integration/scenarios/cri.proto";
    println!("cargo::rerun-if-changed={proto}");
    let out = out_dir().join("cri");
    std::fs::create_dir_all(&out).expect("a directory below OUT_DIR");
    ttrpc_codegen::Codegen::new()
        .out_dir(&out)
        .input(proto)
        .include(Path::new(proto).parent().expect("a directory"))
        .rust_protobuf()
        .run()
        .unwrap_or_else(|error| panic!("{proto}: {error}"));
    // The generated file has inner attributes, which include! refuses and a module accepts.
    std::fs::write(out.join("mods.rs"), "pub mod cri;\n").expect("writing below OUT_DIR");
}

fn out_dir() -> PathBuf {
    std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR").into()
}
