//! Colours, patterns and keys.

use svg::node::element::{Definitions, Path, Pattern, Rectangle, Style};

/// Neighbours differ in lightness too, and black letters are readable on all of them.
const COLOURS: [&str; 12] = [
    "#8ecae6", "#e9a23b", "#c9e9b9", "#b394d6", "#fde68a", "#5fb49c", "#f9c6d7", "#7d9fd3", "#e0cda9",
    "#e57373", "#a8efe6", "#a9b945",
];

/// What lies over the colours when they begin anew; none over the first ones.
const STROKES: [&str; 3] = ["M0 6L6 0", "M0 0L6 6", "M0 3H6"];

/// What a holder's things are filled with.
pub(super) fn fill(party: usize) -> String {
    match overlay(party) {
        None => COLOURS[party % COLOURS.len()].to_owned(),
        Some(_) => format!("url(#p{})", party % distinct()),
    }
}

fn distinct() -> usize {
    COLOURS.len() * (STROKES.len() + 1)
}

fn overlay(party: usize) -> Option<&'static str> {
    let turn = party / COLOURS.len() % (STROKES.len() + 1);
    turn.checked_sub(1).map(|turn| STROKES[turn])
}

/// The patterns that so many parties and the other states need.
pub(super) fn patterns(parties: usize) -> Definitions {
    let hatched = (0..parties.min(distinct())).filter_map(|party| {
        let stroke = overlay(party)?;
        Some(pattern(&format!("p{party}"), COLOURS[party % COLOURS.len()], stroke, "#ffffff"))
    });
    let states = [
        pattern("kept", "#e4e4e4", "M0 6L6 0", "#b4b4b4"),
        pattern("closed", "#ffffff", "M0 0L6 6M0 6L6 0", "#b0b0b0"),
        pattern("pages", "#ffffff", "M3 0V6", "#9a9a9a"),
        pattern("used", "#eeeeee", "M0 3H6", "#8a8a8a"),
    ];
    states.into_iter().chain(hatched).fold(Definitions::new(), Definitions::add)
}

fn pattern(id: &str, colour: &str, stroke: &str, ink: &str) -> Pattern {
    let ground = Rectangle::new().set("width", 6).set("height", 6).set("fill", colour);
    let lines = Path::new().set("d", stroke).set("stroke", ink).set("stroke-width", 1.2);
    let pattern = Pattern::new().set("id", id).set("width", 6).set("height", 6);
    pattern.set("patternUnits", "userSpaceOnUse").add(ground).add(lines)
}

/// `A` to `Z`, then `AA`.
pub(super) fn letters(number: usize) -> String {
    let letter = char::from(b'A' + (number % 26) as u8);
    match number / 26 {
        0 => letter.to_string(),
        more => letters(more - 1) + &letter.to_string(),
    }
}

/// One style sheet: sizes are those of `canvas`.
pub(super) fn style() -> Style {
    Style::new(
        "text{font-family:'DejaVu Sans',Verdana,Helvetica,Arial,sans-serif;fill:#1a1a1a}
.h{font-size:17px;font-weight:bold}
.b{font-size:12px;font-weight:bold}
.t{font-size:11px}
.s{font-size:9px;fill:#444444}
.g{font-size:11px;fill:#4a4a4a}
.r{font-size:11px;fill:#a00000}
.k{font-size:9px;font-weight:bold}
.k3{font-size:7px;font-weight:bold}
.n{font-size:7.5px;fill:#5a5a5a}
.n4{font-size:6px;fill:#5a5a5a}
.package{fill:#f4f4f4;stroke:#8a8a8a}
.node{fill:#ffffff;stroke:#333333;stroke-width:1.4}
.odd{fill:#ffffff;stroke:#333333;stroke-dasharray:5 3}
.llc{fill:none;stroke:#9a9a9a;stroke-width:0.8}
.part{fill:none;stroke:#9a9a9a;stroke-width:0.8;stroke-dasharray:4 2}
.core{fill:none;stroke:#333333;stroke-width:1.2}
.cell{stroke:#9a9a9a;stroke-width:0.5}
.box{stroke:#333333;stroke-width:1}
.free{fill:#ffffff}
.kept{fill:url(#kept)}
.closed{fill:url(#closed)}
.pages{fill:url(#pages)}
.used{fill:url(#used)}
.isolated{fill:#333333}
.link{fill:none;stroke:#555555}
.bar{fill:#4a4a4a}
.w{font-size:10px;font-weight:bold;fill:#ffffff}
.halo{fill:#ffffff}",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_count_on_after_z() {
        let told: Vec<String> = [0, 25, 26, 27, 701, 702].map(letters).into();
        assert_eq!(told, ["A", "Z", "AA", "AB", "ZZ", "AAA"]);
    }

    #[test]
    fn forty_eight_parties_look_different_and_every_pattern_is_there() {
        let fills: BTreeSet<String> = (0..48).map(fill).collect();
        assert_eq!(fills.len(), 48);
        let all = patterns(100).to_string();
        for fill in (0..100).map(fill).filter(|fill| fill.starts_with("url")) {
            let id = fill.trim_start_matches("url(#").trim_end_matches(')');
            assert!(all.contains(&format!("id=\"{id}\"")), "{id}");
        }
    }
}
