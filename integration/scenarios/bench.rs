use crate::node::Node;
use anyhow::Result;
pub fn create(_: &mut Node, _: u32) -> Result<()> {
    Ok(())
}
