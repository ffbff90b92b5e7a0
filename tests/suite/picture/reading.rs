//! A picture read back as XML, and checked for what every picture must be.

use maitred::model::Topology;
use proptest::prelude::*;
use roxmltree::{Document, Node};
use std::collections::BTreeSet;

/// Everything drawn, with where it is by the translations around it.
pub fn placed<'a>(document: &'a Document<'a>) -> Vec<(Node<'a, 'a>, f64, f64)> {
    let shift = |node: &Node<'_, '_>| {
        let Some(text) = node.attribute("transform") else { return (0.0, 0.0) };
        let inner = text.strip_prefix("translate(").and_then(|text| text.strip_suffix(')')).expect(text);
        let (x, y) = inner.split_once(',').expect(text);
        (x.parse::<f64>().unwrap(), y.parse::<f64>().unwrap())
    };
    let drawn = document.descendants().filter(|node| node.is_element());
    let drawn = drawn.filter(|node| !node.ancestors().any(|above| above.has_tag_name("defs")));
    let at = |node: Node<'a, 'a>| {
        let (xs, ys): (Vec<f64>, Vec<f64>) = node.ancestors().map(|above| shift(&above)).unzip();
        (node, xs.iter().sum(), ys.iter().sum())
    };
    drawn.map(at).collect()
}

pub fn number(node: &Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name).unwrap_or("0").parse().unwrap()
}

/// The corners of what an element covers; of letters about as much as a usual font takes.
pub fn extent(node: &Node<'_, '_>) -> Option<[f64; 4]> {
    let (x, y) = (number(node, "x"), number(node, "y"));
    match node.tag_name().name() {
        "rect" => Some([x, y, x + number(node, "width"), y + number(node, "height")]),
        "text" => {
            let size = match node.attribute("class")? {
                "h" => 17.0,
                "b" => 12.0,
                "t" | "g" | "r" => 11.0,
                "w" => 10.0,
                "s" | "k" => 9.0,
                "n" => 7.5,
                "k3" => 7.0,
                "n4" => 6.0,
                other => panic!("a font nobody knows: {other}"),
            };
            let width =
                node.text()?.trim().chars().map(|c| if c.is_ascii() { 0.58 } else { 1.0 }).sum::<f64>()
                    * size;
            let x = match node.attribute("text-anchor") {
                None => x,
                Some("middle") => x - width / 2.0,
                Some("end") => x - width,
                Some(other) => panic!("{other}"),
            };
            Some([x, y - 0.8 * size, x + width, y + 0.2 * size])
        }
        "path" => {
            let text = node.attribute("d")?.replace(['M', 'C'], " ");
            let (mut xs, mut ys) = (Vec::new(), Vec::new());
            // `V` and `H` stand before one number, all others come in pairs.
            let text = text.replace('H', " H ").replace('V', " V ");
            let mut words = text.split_whitespace();
            while let Some(word) = words.next() {
                match word {
                    "H" => xs.push(words.next()?.parse::<f64>().ok()?),
                    "V" => ys.push(words.next()?.parse::<f64>().ok()?),
                    x => {
                        xs.push(x.parse::<f64>().ok()?);
                        ys.push(words.next()?.parse::<f64>().ok()?);
                    }
                }
            }
            let least = |all: &[f64]| all.iter().copied().fold(f64::INFINITY, f64::min);
            let most = |all: &[f64]| all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            Some([least(&xs), least(&ys), most(&xs), most(&ys)])
        }
        _ => None,
    }
}

pub fn check(svg: &str, topology: &Topology) -> Result<(), TestCaseError> {
    let document = Document::parse(svg).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let root = document.root_element();
    let (width, height) = (number(&root, "width"), number(&root, "height"));
    prop_assert_eq!(root.attribute("viewBox"), Some(&*format!("0 0 {width} {height}")));
    let mut cells: Vec<u32> = Vec::new();
    for (node, left, top) in placed(&document) {
        let name = node.tag_name().name();
        let known = ["svg", "title", "style", "defs", "g", "rect", "text", "path", "polygon"];
        prop_assert!(known.contains(&name), "{}", name);
        cells.extend(node.attribute("id").and_then(|id| id.strip_prefix("cpu")?.parse::<u32>().ok()));
        if let Some([x1, y1, x2, y2]) = extent(&node) {
            let inside = x1 + left >= 0.0 && y1 + top >= 0.0 && x2 + left <= width && y2 + top <= height;
            let at = (x1 + left, y1 + top, x2 + left, y2 + top);
            prop_assert!(inside, "{:?} of {} × {}: {:?} {:?}", at, width, height, node, node.text());
        }
    }
    cells.sort_unstable();
    let cpus: Vec<u32> = topology.cpus.iter().map(|cpu| cpu.0).collect();
    prop_assert_eq!(cells, cpus, "every CPU once");
    Ok(())
}

/// All that the document says, tooltips too.
pub fn words(svg: &str) -> BTreeSet<String> {
    let document = Document::parse(svg).unwrap();
    let texts = document.descendants().filter(|node| node.has_tag_name("text") || node.has_tag_name("title"));
    texts.filter_map(|node| Some(node.text()?.trim().to_owned())).collect()
}

/// What stands in the cells of some CPUs.
pub fn keys(svg: &str, cpus: &[u32]) -> Vec<String> {
    let document = Document::parse(svg).unwrap();
    let key = |cpu: &u32| {
        let id = format!("cpu{cpu}");
        let cell = document.descendants().find(|node| node.attribute("id") == Some(&*id)).unwrap();
        let text = cell.next_siblings().find(|node| node.has_tag_name("text")).unwrap();
        text.text().unwrap().trim().to_owned()
    };
    cpus.iter().map(key).collect()
}
