mod messages { include!(concat!(env!("OUT_DIR"), "/cri/mods.rs")); }
fn main() {}
