//! Builds the launcher from `src/launcher`, and generates the NRI messages and service stubs from
//! `src/nri/nri.proto`, the messages of the kubelet's podresources from `src/discover/kubelet/podresources.proto`,
//! and the CRI messages of the integration scenarios from `integration/scenarios/cri.proto`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use ttrpc_codegen::{Codegen, Customize, ProtobufCustomize};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    launcher(&out.join("launcher"))?;
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

/// Compiles the launcher, which the library carries. It is no target of cargo's: as one it would need the standard
/// library to be built at all.
fn launcher(to: &Path) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=src/launcher");
    let target = std::env::var("TARGET")?;
    let mut rustc = Command::new(std::env::var("RUSTC")?);
    rustc.args(["--edition=2024", "--crate-name=launcher", "--crate-type=bin", "--target", &target]);
    // Small, at a fixed address, with nothing to be loaded or relocated.
    let code = ["opt-level=z", "panic=abort", "lto=fat", "codegen-units=1", "strip=symbols"];
    let kind = ["relocation-model=static", "target-feature=+crt-static"];
    let linked =
        ["-nostartfiles", "-nostdlib", "-static", LINKER_OPTIONS].map(|word| format!("link-arg={word}"));
    println!("cargo::rerun-if-env-changed=MAITRED_LAUNCHER_LINKER");
    // Packages are linked by zig for an old libc. The launcher has none, and zig does not know its options.
    let linker =
        ["MAITRED_LAUNCHER_LINKER", "RUSTC_LINKER"].into_iter().find_map(|name| std::env::var(name).ok());
    let linker = linker.map(|linker| format!("linker={linker}"));
    let codegen = code.iter().chain(&kind).map(|word| (*word).to_owned());
    for option in codegen.chain(linked).chain(linker) {
        rustc.args(["-C", &option]);
    }
    let status = rustc.arg("-o").arg(to).arg("src/launcher/main.rs").status()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("the launcher was not built: {status}").into()),
    }
}

/// No build id, no padding between segments, nothing that only a dynamic linker or a debugger reads.
const LINKER_OPTIONS: &str =
    "-Wl,--build-id=none,-z,noseparate-code,-z,norelro,-z,noexecstack,--no-eh-frame-hdr";

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
