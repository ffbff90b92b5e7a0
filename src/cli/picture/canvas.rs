//! Pieces of a drawing that know their size, put beside and below each other. Lengths are pixels.

use svg::Node;
use svg::node::element::{Group, Rectangle, Text, Title};

/// A piece of the drawing; its content keeps inside its size.
pub(super) struct Block {
    pub width: f64,
    pub height: f64,
    content: Group,
}

impl Block {
    /// An empty piece.
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height, content: Group::new() }
    }

    /// Draws into it.
    pub fn add(&mut self, node: impl Node + 'static) {
        self.content.append(node);
    }

    /// Puts another piece into it, and grows where that does not fit.
    pub fn put(&mut self, x: f64, y: f64, block: Self) {
        self.width = self.width.max(x + block.width);
        self.height = self.height.max(y + block.height);
        let content = match (x, y) {
            (0.0, 0.0) => block.content,
            _ => block.content.set("transform", format!("translate({x},{y})")),
        };
        self.add(content);
    }

    /// What is said where the pointer rests.
    pub fn tell(&mut self, text: &str) {
        self.add(title(text));
    }

    /// The drawing in it.
    pub fn content(self) -> Group {
        self.content
    }
}

/// Pieces beside each other in as many rows as it takes, none wider than `room` unless one piece is.
pub(super) fn flow(blocks: Vec<Block>, room: f64, gap: f64) -> Block {
    rows(blocks, room, (gap, gap))
}

/// The same with one gap between pieces and another between rows.
pub(super) fn rows(blocks: Vec<Block>, room: f64, (gap, row_gap): (f64, f64)) -> Block {
    let mut all = Block::new(0.0, 0.0);
    let (mut x, mut y) = (0.0, 0.0);
    for block in blocks {
        if x > 0.0 && x + block.width > room {
            (x, y) = (0.0, all.height + row_gap);
        }
        let next = x + block.width + gap;
        all.put(x, y, block);
        x = next;
    }
    all
}

/// Pieces below each other; what is empty takes no room.
pub(super) fn stack(blocks: impl IntoIterator<Item = Block>, gap: f64) -> Block {
    let mut all = Block::new(0.0, 0.0);
    for block in blocks.into_iter().filter(|block| block.height > 0.0) {
        let y = if all.height > 0.0 { all.height + gap } else { 0.0 };
        all.put(0.0, y, block);
    }
    all
}

/// A rectangle of a class of the style sheet.
pub(super) fn rect(x: f64, y: f64, width: f64, height: f64, class: &str) -> Rectangle {
    let rect = Rectangle::new().set("x", round(x)).set("y", round(y)).set("class", class);
    rect.set("width", round(width)).set("height", round(height))
}

/// Hundredths of a pixel are enough for anyone.
pub(super) fn round(length: f64) -> f64 {
    (length * 100.0).round() / 100.0
}

/// A tooltip.
pub(super) fn title(text: &str) -> Title {
    Title::new(printable(text))
}

/// How a line of text looks; the numbers are those of the style sheet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Font {
    pub class: &'static str,
    pub size: f64,
    /// How much wider than the plain letters.
    pub stretch: f64,
}

/// What the drawing is of.
pub(super) const HEADING: Font = Font { class: "h", size: 17.0, stretch: 1.15 };
/// What a box is of.
pub(super) const NAME: Font = Font { class: "b", size: 12.0, stretch: 1.15 };
/// Words.
pub(super) const PLAIN: Font = Font { class: "t", size: 11.0, stretch: 1.0 };
/// Words beside the point.
pub(super) const SMALL: Font = Font { class: "s", size: 9.0, stretch: 1.0 };
/// The same in grey.
pub(super) const GREY: Font = Font { class: "g", size: 11.0, stretch: 1.0 };
/// Bad news.
pub(super) const BAD: Font = Font { class: "r", size: 11.0, stretch: 1.0 };

impl Font {
    /// How wide a text is at most, or nearly: which font there will be is not known. Capitals and bold letters
    /// of wide sans-serif fonts are 0.7 of the size, Chinese characters all of it.
    pub fn width(self, text: &str) -> f64 {
        let units = text.chars().map(|letter| match letter {
            'i' | 'l' | 'j' | 'f' | 't' | 'r' | ' ' | '.' | ',' | ':' | ';' | '-' | '/' | '(' | ')' | 'I' => {
                0.42
            }
            'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.98,
            'A'..='Z' => 0.72,
            letter if letter.is_ascii() => 0.64,
            _ => 1.05,
        });
        units.sum::<f64>() * self.size * self.stretch
    }

    /// As much of a text as there is room for, with `…` where some is left out.
    pub fn clip(self, text: &str, room: f64) -> String {
        let text = printable(text);
        if self.width(&text) <= room {
            return text;
        }
        let mut clipped = String::new();
        for letter in text.chars() {
            clipped.push(letter);
            if self.width(&clipped) + self.width("…") > room {
                clipped.pop();
                break;
            }
        }
        clipped + "…"
    }

    /// A line of at most `room`, which begins at `x` and stands on `y`; the whole text is told where it is clipped.
    pub fn line(self, x: f64, y: f64, room: f64, text: &str) -> Group {
        self.anchored((x, y), room, text, "start")
    }

    /// The same, that ends at `x`.
    pub fn line_to(self, x: f64, y: f64, room: f64, text: &str) -> Group {
        self.anchored((x, y), room, text, "end")
    }

    fn anchored(self, (x, y): (f64, f64), room: f64, text: &str, anchor: &str) -> Group {
        let clipped = self.clip(text, room);
        let mut group = Group::new();
        if clipped != text {
            group.append(title(text));
        }
        let line = Text::new(clipped).set("class", self.class).set("x", round(x)).set("y", round(y));
        group.append(if anchor == "start" { line } else { line.set("text-anchor", anchor) });
        group
    }

    /// A text broken between words into lines of at most `room`.
    pub fn paragraph(self, room: f64, text: &str) -> Block {
        let mut lines: Vec<String> = Vec::new();
        for word in text.split_whitespace() {
            match lines.last_mut() {
                Some(line) if self.width(line) + self.width(word) + self.size < room => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
        let step = self.size + 4.0;
        let mut block = Block::new(room, lines.len() as f64 * step);
        for (number, line) in lines.iter().enumerate() {
            block.add(self.line(0.0, number as f64 * step + self.size, room, line));
        }
        block
    }
}

/// XML has no word for control characters, whatever they are escaped as.
fn printable(text: &str) -> String {
    let bad = |letter: char| letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}');
    text.chars().map(|letter| if bad(letter) { '\u{fffd}' } else { letter }).collect()
}

/// The smallest text there is, in the middle of a cell.
pub(super) fn centred(x: f64, y: f64, class: &str, text: &str) -> Text {
    let text = Text::new(printable(text)).set("class", class).set("text-anchor", "middle");
    text.set("x", round(x)).set("y", round(y))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_flow_into_rows_and_stack_without_the_empty_ones() {
        let block = |width| Block::new(width, 10.0);
        let rows = flow(vec![block(40.0), block(40.0), block(40.0)], 100.0, 5.0);
        assert_eq!((rows.width, rows.height), (85.0, 25.0));
        let wide = flow(vec![block(400.0), block(40.0)], 100.0, 5.0);
        assert_eq!((wide.width, wide.height), (400.0, 25.0));
        let stacked = stack([block(1.0), Block::new(0.0, 0.0), block(2.0)], 5.0);
        assert_eq!((stacked.width, stacked.height), (2.0, 25.0));
    }

    #[test]
    fn what_is_clipped_fits_and_says_so() {
        assert_eq!(PLAIN.clip("short", 100.0), "short");
        let clipped = PLAIN.clip(&"long ".repeat(100), 100.0);
        assert!(clipped.ends_with('…') && PLAIN.width(&clipped) <= 100.0, "{clipped}");
        assert!(PLAIN.line(0.0, 0.0, 20.0, "a long name").to_string().contains("<title>a long name</title>"));
        assert!(!PLAIN.line(0.0, 0.0, 200.0, "a long name").to_string().contains("title"));
    }

    #[test]
    fn control_characters_are_shown_as_missing() {
        assert_eq!(PLAIN.clip("a\u{1b}[2J\u{0}", 100.0), "a\u{fffd}[2J\u{fffd}");
    }
}
