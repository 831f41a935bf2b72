//! The parts of a Markdown text, the longest of which give way if the text is too long. Pure.

use super::escape::escaped;
use crate::tables::{Grid, Item, Kind};

#[derive(Debug)]
pub struct Part {
    /// Names the part in a note if the part is too long; empty if it must not be omitted.
    name: String,
    text: String,
}

impl Part {
    pub fn new(name: &str, text: String) -> Self {
        Self { name: escaped(name), text }
    }

    /// A list of texts; `None` if there are none.
    pub fn list(name: &str, texts: impl IntoIterator<Item = String>) -> Option<Self> {
        let lines: Vec<String> = texts.into_iter().map(|text| format!("- {}\n", escaped(&text))).collect();
        (!lines.is_empty()).then(|| Self::new(name, lines.concat()))
    }

    pub fn table(name: &str, grid: &Grid) -> Self {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let item = |item: &Item| item.render(escaped, |struck| format!("~~{}~~", escaped(struck)));
        let head = grid.columns.iter().map(|column| escaped(&column.heading)).collect();
        let rule =
            grid.columns.iter().map(|column| if column.kind == Kind::Figure { "---:" } else { ":---" });
        let head = line(head) + &line(rule.map(str::to_owned).collect());
        let lines: String = grid.lines.iter().map(|cells| line(cells.iter().map(item).collect())).collect();
        Self::new(name, head + &lines)
    }

    /// Puts the part below `heading`, which is Markdown.
    pub fn below(self, heading: &str) -> Self {
        Self { text: format!("{heading}\n\n{}", self.text), ..self }
    }

    /// Folds the part behind `summary`, which is HTML.
    pub fn folded(self, summary: &str) -> Self {
        let text = format!("<details><summary>{summary}</summary>\n\n{}\n</details>\n", self.text);
        Self { text, ..self }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    fn omit(&mut self) {
        let name = std::mem::take(&mut self.name);
        self.text = format!("{name}: too long for a comment, see the HTML report.\n");
    }
}

/// Joins all `parts`, and omits the longest until the text has at most `longest` bytes.
pub fn join(mut parts: Vec<Part>, longest: usize) -> String {
    while parts.iter().map(|part| part.text.len() + 1).sum::<usize>() > longest {
        let named = parts.iter_mut().filter(|part| !part.name.is_empty());
        let Some(longest) = named.max_by_key(|part| part.text.len()) else { break };
        longest.omit();
    }
    parts.iter().map(Part::text).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(length: usize, name: &str) -> Part {
        Part::list(name, (0..length).map(|line| format!("{line:08}"))).unwrap()
    }

    #[test]
    fn a_text_that_fits_is_complete() {
        let text = join(vec![Part::new("", "# t\n".to_owned()), list(2, "Table of read")], 60);
        assert_eq!(text, "# t\n\n- 00000000\n- 00000001\n");
    }

    #[test]
    fn the_longest_part_gives_way_first_with_a_note() {
        let text = join(vec![list(3, "Table of read"), list(100, "Every figure").folded("Figures")], 500);
        assert_eq!(
            text,
            "- 00000000\n- 00000001\n- 00000002\n\nEvery figure: too long for a comment, see the HTML report.\n"
        );
    }
}
