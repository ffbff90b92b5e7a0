//! Columns that line up, with headings in between.

use crate::cli::output::Paint;

/// A line of a table.
enum Line {
    Heading(String),
    Cells(Vec<String>),
}

/// Rows whose cells line up over all sections.
pub struct Table {
    paint: Paint,
    lines: Vec<Line>,
}

impl Table {
    /// Nothing yet.
    pub fn new(paint: Paint) -> Self {
        Self { paint, lines: Vec::new() }
    }

    /// Begins a section.
    pub fn heading(&mut self, text: String) {
        self.lines.push(Line::Heading(text));
    }

    /// Adds a row; cells that are missing are empty.
    pub fn row(&mut self, cells: Vec<String>) {
        self.lines.push(Line::Cells(cells));
    }

    /// The text; columns without any content take no room, and no line ends in spaces.
    pub fn print(&self) -> String {
        let mut widths: Vec<usize> = Vec::new();
        for line in &self.lines {
            let Line::Cells(cells) = line else { continue };
            widths.resize(widths.len().max(cells.len()), 0);
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = String::new();
        for line in &self.lines {
            match line {
                Line::Heading(heading) => text.push_str(&self.paint.bold(heading)),
                Line::Cells(cells) => text.push_str(&row(cells, &widths)),
            }
            text.push('\n');
        }
        text
    }
}

fn row(cells: &[String], widths: &[usize]) -> String {
    let shown = cells.iter().zip(widths).filter(|(_, width)| **width > 0);
    let cells: Vec<_> = shown.map(|(cell, width)| format!("{cell:width$}", width = *width)).collect();
    format!("  {}", cells.join("  ").trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_over_sections_and_empty_ones_vanish() {
        let mut table = Table::new(Paint::PLAIN);
        let cells = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect();
        table.heading("node 0".into());
        table.row(cells(&["a", "", "16 × 1Gi", "x"]));
        table.heading("node 1".into());
        table.row(cells(&["long", "", "b", ""]));
        assert_eq!(table.print(), "node 0\n  a     16 × 1Gi  x\nnode 1\n  long  b\n");
    }

    #[test]
    fn colours_do_not_change_the_width() {
        let mut table = Table::new(Paint::COLOURED);
        table.heading("node 0".into());
        table.row(vec!["a".into()]);
        assert_eq!(table.print(), "\x1b[1mnode 0\x1b[0m\n  a\n");
    }
}
