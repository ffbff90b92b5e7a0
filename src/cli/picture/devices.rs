//! GPUs and NICs as chips.

use super::canvas::{Block, NAME, SMALL, centred, flow, rect, title};
use super::holders::Holders;
use crate::model::{Gpu, Nic};
use svg::node::element::Group;

const GPU_HEIGHT: f64 = 36.0;
const NIC_HEIGHT: f64 = 18.0;
const GAP: f64 = 6.0;

/// How wide a GPU's chip is, at least.
pub(super) const GPU_WIDTH: f64 = 84.0;
/// And at most, where there is room for the whole name of its model.
const GPU_WIDEST: f64 = 132.0;

/// The GPUs in rows.
pub(super) fn gpus<'a>(gpus: impl Iterator<Item = &'a Gpu>, holders: &Holders, room: f64) -> Block {
    let gpus: Vec<&Gpu> = gpus.collect();
    let share = (room + GAP) / gpus.len().max(1) as f64 - GAP;
    let width = share.clamp(GPU_WIDTH, GPU_WIDEST);
    let chips = gpus.into_iter().map(|one| {
        let model = one.model.as_deref().unwrap_or("model unknown").trim_start_matches("NVIDIA ");
        gpu(one, width, model, holders)
    });
    flow(chips.collect(), room, GAP)
}

/// The NICs in rows.
pub(super) fn nics<'a>(nics: impl Iterator<Item = &'a Nic>, holders: &Holders, room: f64) -> Block {
    flow(nics.map(|one| nic(one, holders, room)).collect(), room, GAP)
}

/// A GPU, with a line below its name; its parts beside each other where it is split.
pub(super) fn gpu(gpu: &Gpu, width: f64, line: &str, holders: &Holders) -> Block {
    let mut block = Block::new(width, GPU_HEIGHT);
    let uuid = gpu.uuid.as_deref().unwrap_or("UUID unknown");
    let model = gpu.model.as_deref().unwrap_or("model unknown");
    block.tell(&format!("GPU {}: {model}, PCI {}, {uuid}", gpu.index, gpu.pci));
    block.add(rect(0.0, 0.0, width, GPU_HEIGHT, "box free").set("rx", 3));
    let whole = holders.gpus.get(&(gpu.index, None)).map(Vec::as_slice).unwrap_or_default();
    if gpu.mig.is_empty() || !whole.is_empty() {
        fills(&mut block, (0.0, 0.0, width, GPU_HEIGHT), whole, holders);
        block.add(NAME.line(5.0, 14.0, width - 30.0, &format!("GPU {}", gpu.index)));
        block.add(SMALL.line(5.0, 28.0, width - 8.0, line));
    } else {
        parts(&mut block, gpu, width, holders);
        block.add(NAME.line(5.0, 13.0, width - 8.0, &format!("GPU {}", gpu.index)));
    }
    block.add(rect(0.0, 0.0, width, GPU_HEIGHT, "core").set("rx", 3));
    block
}

fn parts(block: &mut Block, gpu: &Gpu, width: f64, holders: &Holders) {
    let width = width / gpu.mig.len().max(1) as f64;
    for (number, mig) in gpu.mig.iter().enumerate() {
        let (x, y, height) = (number as f64 * width, 17.0, GPU_HEIGHT - 17.0);
        let held = holders.gpus.get(&(gpu.index, Some(mig.index))).map(Vec::as_slice).unwrap_or_default();
        let mut part =
            Group::new().add(title(&format!("MIG device {}:{}, {}", gpu.index, mig.index, mig.uuid)));
        part = part.add(rect(x, y, width, height, "cell free"));
        if held.is_empty() {
            part = part.add(centred(x + width / 2.0, y + 12.5, "n", &mig.index.to_string()));
        }
        block.add(part);
        fills(block, (x, y, width, height), held, holders);
    }
}

fn nic(nic: &Nic, holders: &Holders, room: f64) -> Block {
    let held = holders.nics.get(&nic.name).map(Vec::as_slice).unwrap_or_default();
    let keys = held.iter().map(|holder| key_width(&holders.get(*holder).key)).sum::<f64>();
    let width = (SMALL.width(&nic.name) + 10.0 + keys).clamp(44.0, room.clamp(44.0, 140.0));
    let mut block = Block::new(width, NIC_HEIGHT);
    let pci = nic.pci.map_or_else(|| "no PCI address known".into(), |pci| format!("PCI {pci}"));
    block.tell(&format!("NIC {}: {pci}", nic.name));
    block.add(rect(0.0, 0.0, width, NIC_HEIGHT, "box free").set("rx", 9));
    fills(&mut block, (0.0, 0.0, width, NIC_HEIGHT), held, holders);
    block.add(SMALL.line(6.0, 12.5, width - 8.0 - keys, &nic.name));
    block.add(rect(0.0, 0.0, width, NIC_HEIGHT, "core").set("rx", 9));
    block
}

fn key_width(key: &str) -> f64 {
    key.len() as f64 * 7.5 + 4.0
}

/// Everyone who holds a thing, beside each other, with the keys at the right.
fn fills(block: &mut Block, (x, y, width, height): (f64, f64, f64, f64), held: &[usize], holders: &Holders) {
    let each = width / held.len().max(1) as f64;
    for (number, holder) in held.iter().map(|holder| holders.get(*holder)).enumerate() {
        let (left, rx) = (
            x + number as f64 * each,
            if held.len() == 1 && height > 17.0 && x == 0.0 { height.min(18.0) / 2.0 } else { 0.0 },
        );
        let rx = if height > NIC_HEIGHT { rx.min(3.0) } else { rx };
        let fill =
            rect(left, y, each, height, "cell").set("rx", rx).set("style", format!("fill:{}", holder.fill()));
        let group = Group::new().add(title(&format!("{}: {}", holder.name, holder.words))).add(fill);
        let right = left + each - key_width(&holder.key) / 2.0;
        block.add(group.add(centred(right.max(left + each / 2.0), y + 12.5, "k", &holder.key)));
    }
}
