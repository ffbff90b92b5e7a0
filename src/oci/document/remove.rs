//! Taking a key away: what [`Document::set`] put in goes with the comma it came with.

use super::{Document, DocumentError, kind, members};

impl Document {
    /// Takes a key and its value away; nothing where there is none.
    ///
    /// # Errors
    /// Something on the way is no object.
    pub fn remove(&mut self, path: &[&str]) -> Result<(), DocumentError> {
        let Some((key, at)) = path.split_last() else { return Ok(()) };
        let Some(object) = self.get(at)? else { return Ok(()) };
        let members = members(object).map_err(|_| kind(at, object, "an object"))?;
        let Some(found) = members.iter().rposition(|(name, _)| name == key) else { return Ok(()) };
        let end = |member: usize| self.range(members[member].1).end;
        let first = self.range(object).start + 1;
        let range = match found.checked_sub(1) {
            Some(before) => end(before)..end(found),
            // Its own comma is the one behind it.
            None if members.len() > 1 => {
                let comma = self.text[end(0)..].find(',').map_or(0, |comma| comma + 1);
                first..end(0) + comma
            }
            None => first..end(0),
        };
        self.text.replace_range(range, "");
        Ok(())
    }

    /// Takes an object or array away that has nothing in it, and those it lies in that have nothing else; the
    /// outermost that may go is `path` up to `keep` keys.
    ///
    /// # Errors
    /// Something on the way is no object.
    pub fn remove_empty(&mut self, path: &[&str], keep: usize) -> Result<(), DocumentError> {
        for depth in (keep + 1..=path.len()).rev() {
            let here = &path[..depth];
            let text = self.get(here)?.unwrap_or_default();
            let inner = text.strip_prefix(['{', '[']).and_then(|text| text.strip_suffix(['}', ']']));
            if !inner.is_some_and(|inner| inner.trim().is_empty()) {
                return Ok(());
            }
            self.remove(here)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(text: &str, path: &[&str]) -> String {
        let mut document = Document::new(text.to_owned()).unwrap();
        document.remove(path).unwrap();
        document.text().to_owned()
    }

    #[test]
    fn a_key_goes_with_one_comma_and_nothing_else_does() {
        let text = r#"{"a" : 1 , "b":{"x":[1]},"c":"}," }"#;
        assert_eq!(without(text, &["a"]), r#"{ "b":{"x":[1]},"c":"}," }"#);
        assert_eq!(without(text, &["b"]), r#"{"a" : 1,"c":"}," }"#);
        assert_eq!(without(text, &["c"]), r#"{"a" : 1 , "b":{"x":[1]} }"#);
        assert_eq!(without(text, &["b", "x"]), r#"{"a" : 1 , "b":{},"c":"}," }"#);
        assert_eq!(without(text, &["b", "y"]), text);
        assert_eq!(without(text, &["d", "y"]), text);
        assert_eq!(without(r#"{"a":1,"a":2}"#, &["a"]), r#"{"a":1}"#, "the one that counts");
    }

    #[test]
    fn what_was_set_and_is_removed_leaves_no_trace() {
        for text in [r#"{"linux":{"cpu":{ "quota":1 }}}"#, "{}", r#"{"linux":{}, "x":1}"#] {
            let mut document = Document::new(text.to_owned()).unwrap();
            let path = ["linux", "cpu", "cpus"];
            let keep = (0..=3).rev().find(|depth| document.get(&path[..*depth]).unwrap().is_some()).unwrap();
            document.set(&path, "\"0\"").unwrap();
            document.remove(&path).unwrap();
            document.remove_empty(&path[..2], keep).unwrap();
            assert_eq!(document.text(), text);
        }
    }

    #[test]
    fn what_is_not_empty_stays() {
        let mut document = Document::new(r#"{"a":{"b":{"c":[ ]},"d":1}}"#.to_owned()).unwrap();
        document.remove_empty(&["a", "b", "c"], 0).unwrap();
        assert_eq!(document.text(), r#"{"a":{"d":1}}"#);
    }
}
