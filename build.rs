//! Generates the NRI messages and service stubs from `src/nri/nri.proto`, and the CRI messages of
//! the integration scenarios from `integration/scenarios/cri.proto`.

use std::error::Error;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    cri(&out.join("cri"))
}

/// CRI: messages alone, because the scenarios speak gRPC through h2.
fn cri(out: &Path) -> Result<(), Box<dyn Error>> {
    const PROTO: &str = "integration/scenarios/cri.proto";
    println!("cargo::rerun-if-changed={PROTO}");
    std::fs::create_dir_all(out)?;
    ttrpc_codegen::Codegen::new()
        .out_dir(out)
        .input(PROTO)
        .include("integration/scenarios")
        .rust_protobuf()
        .rust_protobuf_customize(ttrpc_codegen::ProtobufCustomize::default().lite_runtime(true))
        .run()?;
    // The generator's own mod.rs begins with an inner attribute, which `include!` does not take.
    std::fs::write(out.join("mods.rs"), "pub mod cri;\n")?;
    Ok(())
}
