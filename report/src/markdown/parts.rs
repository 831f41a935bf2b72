//! What Markdown is made of, and what is left out of it where all is too long. Pure.

use super::escape::{cell, escaped};
use crate::layout::Grid;

/// What stands together, from its first line to its last.
#[derive(Debug, Default)]
pub struct Part {
    before: String,
    lines: Vec<String>,
    after: String,
    /// What the lines are, such as "lines of read".
    what: String,
    /// Its lines are of no use without each other.
    whole: bool,
    /// How many of its lines are left out.
    cut: usize,
}

impl Part {
    /// What is never cut, since it is short.
    pub fn short(text: String) -> Self {
        Self { before: text, ..Self::default() }
    }

    /// What is repeated in lines that are Markdown already.
    pub fn lines(lines: Vec<String>, what: &str) -> Self {
        Self { lines, what: escaped(what), ..Self::default() }
    }

    /// A list of texts; nothing of none.
    pub fn list(texts: impl IntoIterator<Item = String>, what: &str) -> Option<Self> {
        let lines: Vec<String> = texts.into_iter().map(|text| format!("- {}\n", escaped(&text))).collect();
        (!lines.is_empty()).then(|| Self::lines(lines, what))
    }

    /// A table.
    pub fn table(grid: &Grid, what: &str) -> Self {
        let line = |cells: &[String]| {
            format!("| {} |\n", cells.iter().map(|text| cell(text)).collect::<Vec<_>>().join(" | "))
        };
        let words = ["Verdict", "Notes", "Measurements"];
        let rule = |(place, heading): (usize, &String)| {
            if place < grid.names || words.contains(&heading.as_str()) { ":---" } else { "---:" }
        };
        let rule: Vec<&str> = grid.header.iter().enumerate().map(rule).collect();
        let before = format!("{}| {} |\n", line(&grid.header), rule.join(" | "));
        Self { before, ..Self::lines(grid.lines.iter().map(|cells| line(cells)).collect(), what) }
    }

    /// It below `heading`, which is Markdown.
    pub fn below(mut self, heading: &str) -> Self {
        self.before = format!("{heading}\n\n{}", self.before);
        self
    }

    /// It behind `summary`, which is HTML.
    pub fn folded(mut self, summary: &str) -> Self {
        self.before = format!("<details><summary>{summary}</summary>\n\n{}", self.before);
        self.after.push_str("\n</details>\n");
        self
    }

    /// It whole or not at all.
    pub fn whole(self) -> Self {
        Self { whole: true, ..self }
    }

    fn shorten(&mut self) {
        let cut = if self.whole { self.lines.len() } else { 1 };
        self.lines.truncate(self.lines.len().saturating_sub(cut));
        self.cut += cut;
    }

    /// What is left out, and where it is found.
    fn note(&self) -> String {
        let Self { what, cut, .. } = self;
        let cut = match (cut, self.lines.is_empty()) {
            (0, _) => return String::new(),
            (cut, true) => format!("The {cut} {what}"),
            (cut, false) => format!("\n{cut} more {what}"),
        };
        format!("{cut} are left out, so that a comment holds this: the report as HTML has them.\n")
    }

    fn length(&self) -> usize {
        let lines: usize = self.lines.iter().map(String::len).sum();
        self.before.len() + lines + self.note().len() + self.after.len() + 1
    }

    /// It with what is left out.
    pub fn text(&self) -> String {
        if self.cut > 0 && self.lines.is_empty() {
            return self.note();
        }
        [&self.before, &self.lines.concat(), &self.note(), &self.after].map(String::as_str).concat()
    }
}

/// All `parts`, of which the largest are cut until they have at most `longest` bytes.
pub fn join(mut parts: Vec<Part>, longest: usize) -> String {
    while parts.iter().map(Part::length).sum::<usize>() > longest {
        let with_lines = parts.iter_mut().filter(|part| !part.lines.is_empty());
        let Some(largest) = with_lines.max_by_key(|part| part.length()) else { break };
        largest.shorten();
    }
    parts.iter().map(Part::text).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(length: usize, what: &str) -> Part {
        Part::lines((0..length).map(|line| format!("- {line:08}\n")).collect(), what)
    }

    #[test]
    fn what_fits_is_whole() {
        let text = join(vec![Part::short("# t\n".to_owned()), list(2, "lines of read")], 60);
        assert_eq!(text, "# t\n\n- 00000000\n- 00000001\n");
    }

    #[test]
    fn the_largest_is_cut_first_and_each_cut_says_where_the_rest_is() {
        let text = join(vec![list(3, "lines of read"), list(100, "lines of write").folded("100 lines")], 500);
        assert!(text.len() <= 500, "{} bytes: {text}", text.len());
        assert!(
            text.starts_with("- 00000000\n- 00000001\n- 00000002\n\n<details>"),
            "the smaller was cut: {text}"
        );
        let rest =
            "more lines of write are left out, so that a comment holds this: the report as HTML has them.";
        assert!(text.contains(rest) && text.ends_with("\n</details>\n"), "{text}");
    }

    #[test]
    fn what_is_of_no_use_in_part_is_there_or_not() {
        let text =
            join(vec![list(3, "lines of read"), list(100, "figures").whole().folded("Every figure")], 500);
        let (kept, note) = text.split_once("\n\n").unwrap();
        assert_eq!(kept.lines().count(), 3, "{text}");
        assert!(note.starts_with("The 100 figures are left out"), "{text}");
    }
}
