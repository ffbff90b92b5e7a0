//! Names with stars.

/// A name in which `*` stands for anything, also nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(String);

impl From<&str> for Glob {
    fn from(pattern: &str) -> Self {
        Self(pattern.to_owned())
    }
}

impl Glob {
    /// Whether `name` is one of those meant.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
        let mut parts = parts.peekable();
        if parts.peek().is_none() {
            return rest.is_empty();
        }
        // The first place each part is found leaves the most for those after it.
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return rest.ends_with(part);
            }
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stars_stand_for_anything() {
        let matches = |pattern, name| Glob::from(pattern).matches(name);
        assert!(matches("rdma/hca", "rdma/hca") && !matches("rdma/hca", "rdma/hca2"));
        assert!(matches("rdma/*", "rdma/hca_shared") && !matches("rdma/*", "xrdma/hca"));
        assert!(matches("*/*rdma*", "intel.com/sriov_rdma") && !matches("*/*rdma*", "rdma"));
        assert!(matches("a*a", "aa") && !matches("a*a", "a"));
    }

    /// The obvious definition, exponential and right.
    fn naive(pattern: &[char], name: &[char]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some(('*', rest)) => (0..=name.len()).any(|skip| naive(rest, &name[skip..])),
            Some((first, rest)) => name.first() == Some(first) && naive(rest, &name[1..]),
        }
    }

    proptest! {
        #[test]
        fn agrees_with_trying_everything(pattern in "[ab*]{0,6}", name in "[ab]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = naive(&chars(&pattern), &chars(&name));
            prop_assert_eq!(Glob::from(pattern.as_str()).matches(&name), expected);
        }
    }
}
