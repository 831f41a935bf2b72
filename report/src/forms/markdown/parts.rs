//! The parts of a Markdown text, and the notes about lines that did not fit. Pure.

use super::escape::escaped;
use crate::tables::{Grid, Item, Kind};

#[derive(Debug, Default)]
pub struct Part {
    before: String,
    lines: Vec<String>,
    after: String,
    /// What the lines are, such as "lines of read".
    what: String,
    /// Some of its lines without the others are useless.
    indivisible: bool,
    omitted: usize,
}

impl Part {
    pub fn short(text: String) -> Self {
        Self { before: text, ..Self::default() }
    }

    pub fn lines(lines: Vec<String>, what: &str) -> Self {
        Self { lines, what: escaped(what), ..Self::default() }
    }

    /// A list of texts; `None` if there are none.
    pub fn list(texts: impl IntoIterator<Item = String>, what: &str) -> Option<Self> {
        let lines: Vec<String> = texts.into_iter().map(|text| format!("- {}\n", escaped(&text))).collect();
        (!lines.is_empty()).then(|| Self::lines(lines, what))
    }

    pub fn table(grid: &Grid, what: &str) -> Self {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let item = |item: &Item| item.render(escaped, |struck| format!("~~{}~~", escaped(struck)));
        let head = grid.columns.iter().map(|column| escaped(&column.heading)).collect();
        let rule =
            grid.columns.iter().map(|column| if column.kind == Kind::Figure { "---:" } else { ":---" });
        let before = line(head) + &line(rule.map(str::to_owned).collect());
        let lines = grid.lines.iter().map(|cells| line(cells.iter().map(item).collect()));
        Self { before, ..Self::lines(lines.collect(), what) }
    }

    /// Puts the part below `heading`, which is Markdown.
    pub fn below(mut self, heading: &str) -> Self {
        self.before = format!("{heading}\n\n{}", self.before);
        self
    }

    /// Folds the part behind `summary`, which is HTML.
    pub fn folded(mut self, summary: &str) -> Self {
        self.before = format!("<details><summary>{summary}</summary>\n\n{}", self.before);
        self.after.push_str("\n</details>\n");
        self
    }

    pub fn indivisible(self) -> Self {
        Self { indivisible: true, ..self }
    }

    fn shorten(&mut self) {
        let count = if self.indivisible { self.lines.len() } else { 1 };
        self.lines.truncate(self.lines.len().saturating_sub(count));
        self.omitted += count;
    }

    fn note(&self) -> String {
        let Self { what, omitted, .. } = self;
        let subject = match (omitted, self.lines.is_empty()) {
            (0, _) => return String::new(),
            (all, true) => format!("The {all} {what}"),
            (some, false) => format!("\n{some} more {what}"),
        };
        format!("{subject} do not fit into a comment: see the HTML report.\n")
    }

    fn length(&self) -> usize {
        let lines: usize = self.lines.iter().map(String::len).sum();
        self.before.len() + lines + self.note().len() + self.after.len() + 1
    }

    pub fn text(&self) -> String {
        if self.omitted > 0 && self.lines.is_empty() {
            return self.note();
        }
        [&self.before, &self.lines.concat(), &self.note(), &self.after].map(String::as_str).concat()
    }
}

/// Joins all `parts`, and shortens the largest until the text has at most `longest` bytes.
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
    fn a_text_that_fits_is_complete() {
        let text = join(vec![Part::short("# t\n".to_owned()), list(2, "lines of read")], 60);
        assert_eq!(text, "# t\n\n- 00000000\n- 00000001\n");
    }

    #[test]
    fn the_largest_part_is_shortened_first_with_a_note() {
        let text = join(vec![list(3, "lines of read"), list(100, "lines of write").folded("100 lines")], 500);
        assert!(text.len() <= 500, "{} bytes: {text}", text.len());
        assert!(
            text.starts_with("- 00000000\n- 00000001\n- 00000002\n\n<details>"),
            "the smaller part is shortened: {text}"
        );
        let rest = "more lines of write do not fit into a comment: see the HTML report.";
        assert!(text.contains(rest) && text.ends_with("\n</details>\n"), "{text}");
    }

    #[test]
    fn an_indivisible_part_is_complete_or_absent() {
        let text = join(
            vec![list(3, "lines of read"), list(100, "figures").indivisible().folded("Every figure")],
            500,
        );
        let (list, note) = text.split_once("\n\n").unwrap();
        assert_eq!(list.lines().count(), 3, "{text}");
        assert!(note.starts_with("The 100 figures do not fit"), "{text}");
    }
}
