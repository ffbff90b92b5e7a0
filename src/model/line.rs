//! Texts that repeat what others say, for a reader on a terminal or in a log.

/// How many characters of a line are shown. The kubelet's events hold 1024 bytes, logs should hold more.
const LINE: usize = 2000;

/// A text that may repeat what a pod says of itself, for a reader: one line, of bounded length.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(LINE));
    let mut room = LINE;
    for character in text.chars() {
        // An escaped character takes the room that it is shown with.
        let shown = if is_unseen(character) { character.escape_default().count() } else { 1 };
        let Some(rest) = room.checked_sub(shown) else {
            line.push('…');
            break;
        };
        room = rest;
        match is_unseen(character) {
            true => line.extend(character.escape_default()),
            false => line.push(character),
        }
    }
    line
}

/// Whether a character does something other than to be seen: moves the cursor, ends the line, turns the direction of
/// what follows (U+202E shows `fdp.exe` as `exe.pdf`), or joins what surrounds it.
#[must_use]
pub fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{e0000}'..='\u{e007f}'
        )
}
