//! Generates the NRI messages and service stubs from `src/nri/nri.proto`, the messages of the kubelet's
//! podresources from `src/discover/kubelet/podresources.proto`, and the CRI messages of the integration
//! scenarios from `integration/scenarios/cri.proto`.

use std::error::Error;
use std::path::{Path, PathBuf};
use ttrpc_codegen::{Codegen, Customize, ProtobufCustomize};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    // NRI: messages, the Plugin service we serve and the Runtime service we call (and, for the tests'
    // runtime, the other way round).
    let services = Customize { async_all: true, ..Customize::default() };
    let mut nri = Codegen::new();
    nri.customize(services);
    generate(nri, "src/nri/nri.proto", &out.join("nri"), &["nri", "nri_ttrpc"])?;
    // podresources: messages alone, because it is asked through h2.
    let podresources = "src/discover/kubelet/podresources.proto";
    generate(Codegen::new(), podresources, &out.join("kubelet"), &["podresources"])?;
    // CRI: messages alone, because the scenarios speak gRPC through h2.
    generate(Codegen::new(), "integration/scenarios/cri.proto", &out.join("cri"), &["cri"])
}

/// Generates code for one file and a `mods.rs` that declares the modules worth including.
fn generate(mut codegen: Codegen, proto: &str, out: &Path, modules: &[&str]) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={proto}");
    std::fs::create_dir_all(out)?;
    let folder = Path::new(proto).parent().ok_or("a proto file lies in a folder")?;
    codegen
        .out_dir(out)
        .input(proto)
        .include(folder)
        .rust_protobuf()
        .rust_protobuf_customize(ProtobufCustomize::default().lite_runtime(true))
        .run()?;
    // The generator's own mod.rs begins with an inner attribute, which `include!` does not take.
    let mods: String = modules.iter().map(|name| format!("pub mod {name};\n")).collect();
    std::fs::write(out.join("mods.rs"), mods)?;
    Ok(())
}
