//! Lines, and whether the last of them is complete.

/// Lines that ended, and what came after the last end of a line.
pub(crate) struct Lines<'a> {
    /// The text up to and with the last line feed or carriage return.
    pub complete: &'a str,
    /// What follows it, unless that is blank: a line that may have been cut.
    pub rest: Option<&'a str>,
}

/// Splits off a last line that has no end. A tool that was killed, or a file
/// that was cut, ends anywhere: "1234" may be what is left of "12345678".
pub(crate) fn lines(text: &str) -> Lines<'_> {
    let end = text.rfind(['\n', '\r']).map_or(0, |position| position + 1);
    let (complete, rest) = text.split_at(end);
    Lines { complete, rest: (!rest.trim().is_empty()).then_some(rest) }
}

impl Lines<'_> {
    /// What to say of a last line that was left out.
    pub(crate) fn incomplete(&self) -> Option<String> {
        self.rest.map(|rest| {
            let shown: String = rest.trim().chars().take(80).collect();
            format!("the output ends in the middle of a line, which was not read: {shown:?}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_end_is_set_apart() {
        let lines = lines("a 1\nb 12");
        assert_eq!((lines.complete, lines.rest), ("a 1\n", Some("b 12")));
        assert!(lines.incomplete().unwrap().contains("b 12"));
    }

    #[test]
    fn complete_lines_are_complete() {
        for text in ["", "a\n", "a\r\n", "a\r", "a\n  "] {
            assert_eq!(lines(text).incomplete(), None, "{text:?}");
        }
    }
}
