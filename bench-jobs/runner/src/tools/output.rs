//! A tool's output as lines, the last ones stored, secrets removed. Pure.

use std::collections::VecDeque;

/// Longest stored line, in bytes; the runner drops the rest of a longer one.
const MAXIMUM_LINE_BYTES: usize = 4096;
const KEPT_LINES: usize = 40;
pub const REDACTED: &str = "[redacted]";

/// Splits a byte stream at CR and LF: tools redraw progress lines with a bare
/// CR. Empty lines are passed over.
#[derive(Debug, Default)]
pub struct LineSplitter {
    pending: Vec<u8>,
}

impl LineSplitter {
    /// Takes in bytes; hands every line that they complete to `line`.
    pub fn push(&mut self, bytes: &[u8], mut line: impl FnMut(&str)) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
            self.keep(&rest[..end]);
            self.complete(&mut line);
            rest = &rest[end + 1..];
        }
        self.keep(rest);
    }

    /// Hands out what is left without a line end.
    pub fn finish(&mut self, mut line: impl FnMut(&str)) {
        self.complete(&mut line);
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = MAXIMUM_LINE_BYTES - self.pending.len();
        self.pending.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn complete(&mut self, line: &mut impl FnMut(&str)) {
        if !self.pending.is_empty() {
            line(&String::from_utf8_lossy(&self.pending));
            self.pending.clear();
        }
    }
}

#[derive(Debug, Default)]
pub struct Tail(VecDeque<String>);

impl Tail {
    /// Adds a line, and forgets the oldest when there are too many.
    pub fn push(&mut self, line: String) {
        if self.0.len() == KEPT_LINES {
            self.0.pop_front();
        }
        self.0.push_back(line);
    }

    pub fn into_lines(self) -> Vec<String> {
        self.0.into()
    }
}

#[derive(Clone)]
pub struct Redactor(Vec<String>);

impl Redactor {
    /// Removes all `secrets` that are not empty, in quoted text too.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let spellings = |secret: &str| [secret.to_owned(), secret.escape_debug().to_string()];
        let mut secrets: Vec<_> =
            secrets.into_iter().filter(|secret| !secret.is_empty()).flat_map(spellings).collect();
        // The longest first: a secret may be part of another one.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self(secrets)
    }

    /// `text` without the secrets.
    pub fn clean(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), REDACTED))
    }

    pub fn clean_all<'a>(&self, texts: impl IntoIterator<Item = &'a mut String>) {
        for text in texts {
            *text = self.clean(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(chunks: &[&[u8]]) -> Vec<String> {
        let (mut splitter, mut lines) = (LineSplitter::default(), Vec::new());
        for chunk in chunks {
            splitter.push(chunk, |line| lines.push(line.to_owned()));
        }
        splitter.finish(|line| lines.push(line.to_owned()));
        lines
    }

    #[test]
    fn lines_end_at_cr_and_at_lf() {
        assert_eq!(split(&[b"a\rb\r\n", b"c", b"d\n\n\re"]), ["a", "b", "cd", "e"]);
    }

    #[test]
    fn a_line_without_end_is_bounded() {
        let lines = split(&[&vec![b'x'; 100_000], b"\nshort"]);
        assert_eq!((lines[0].len(), lines[1].as_str()), (MAXIMUM_LINE_BYTES, "short"));
    }

    #[test]
    fn only_the_last_lines_are_stored() {
        let mut tail = Tail::default();
        (0..100).for_each(|number| tail.push(number.to_string()));
        let lines = tail.into_lines();
        assert_eq!((lines.len(), lines[0].as_str(), lines[39].as_str()), (40, "60", "99"));
    }

    #[test]
    fn secrets_are_removed_everywhere() {
        let redactor = Redactor::new(["hush", "hush-hush"]);
        assert_eq!(redactor.clean("--authenticate hush, hushed"), "--authenticate [redacted], [redacted]ed");
        assert_eq!(redactor.clean("a hush-hush b"), "a [redacted] b", "the longer one must go as a whole");
        assert_eq!(Redactor::new([""]).clean("text"), "text");
        let quoted = format!("{:?}", "the server says pa\"ss\\word");
        assert_eq!(Redactor::new(["pa\"ss\\word"]).clean(&quoted), "\"the server says [redacted]\"");
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(text in "[ab\r\n]{0,60}", cut in 0usize..60) {
            let bytes = text.as_bytes();
            let cut = cut.min(bytes.len());
            prop_assert_eq!(split(&[&bytes[..cut], &bytes[cut..]]), split(&[bytes]));
        }
    }
}
