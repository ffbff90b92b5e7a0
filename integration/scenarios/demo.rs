use crate::node::Node;
use anyhow::Result;
pub fn run(_: &mut Node) -> Result<bool> {
    Ok(true)
}
