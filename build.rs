//! Generates the NRI messages and service stubs from `src/nri/nri.proto`.

use std::error::Error;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    nri(&out.join("nri"))
}

/// NRI: messages, the Plugin service we serve and the Runtime service we call (and, for the tests'
/// runtime, the other way round).
fn nri(out: &Path) -> Result<(), Box<dyn Error>> {
    const PROTO: &str = "src/nri/nri.proto";
    println!("cargo::rerun-if-changed={PROTO}");
    std::fs::create_dir_all(out)?;
    ttrpc_codegen::Codegen::new()
        .out_dir(out)
        .input(PROTO)
        .include("src/nri")
        .rust_protobuf()
        .customize(ttrpc_codegen::Customize { async_all: true, ..Default::default() })
        .rust_protobuf_customize(ttrpc_codegen::ProtobufCustomize::default().lite_runtime(true))
        .run()?;
    // The generator's own mod.rs begins with an inner attribute, which `include!` does not take.
    std::fs::write(out.join("mods.rs"), "pub mod nri;\npub mod nri_ttrpc;\n")?;
    Ok(())
}
