//! What memtier itself printed, read line by line without the parser under test.

use std::collections::BTreeMap;

/// Lines of the result file that begin with so many tabs and no more, without
/// the tabs and the comma; found without the parser that is under test.
fn at_depth(json: &str, tabs: usize) -> impl Iterator<Item = (usize, &str)> {
    json.lines().enumerate().filter_map(move |(number, line)| {
        let text = line.trim_start_matches('\t');
        (line.len() - text.len() == tabs).then_some((number, text.trim_start_matches(',')))
    })
}

/// One row's own numbers, straight out of the text of the result file.
#[derive(Debug, Default)]
pub struct TextRow {
    pub label: String,
    pub numbers: BTreeMap<String, String>,
    pub percentiles: Vec<(f64, String)>,
}

/// The rows of the only run, `Totals` last.
pub fn text_rows(json: &str) -> Vec<TextRow> {
    let start = json.lines().position(|line| line.contains("\"ALL STATS\"")).unwrap();
    let mut rows: Vec<TextRow> = Vec::new();
    let mut pieces: Vec<(usize, usize, &str)> = Vec::new();
    for tabs in [2, 3, 4] {
        pieces.extend(at_depth(json, tabs).map(|(line, text)| (line, tabs, text)));
    }
    pieces.sort_unstable();
    for (_, tabs, text) in pieces.into_iter().filter(|(line, _, _)| *line > start) {
        let Some((key, value)) = text.strip_prefix('"').and_then(|text| text.split_once("\":")) else {
            continue;
        };
        match (tabs, rows.last_mut()) {
            (2, _) => rows.push(TextRow { label: key.to_owned(), ..TextRow::default() }),
            (3, Some(row)) => {
                row.numbers.insert(key.to_owned(), value.trim().to_owned());
            }
            (4, Some(row)) if key.starts_with('p') && key != "percent" => {
                row.percentiles.push((key[1..].parse().unwrap(), value.trim().to_owned()));
            }
            _ => {}
        }
    }
    rows.retain(|row| row.numbers.contains_key("Count"));
    rows
}

impl TextRow {
    pub fn number(&self, name: &str) -> f64 {
        self.numbers.get(name).map_or(0.0, |number| number.parse().unwrap())
    }

    pub fn count(&self) -> u64 {
        self.numbers["Count"].parse().unwrap()
    }
}

/// The table on stdout: per row its label's first word, and per percentile the text of the latency.
pub fn table_percentiles(table: &str) -> Vec<(f64, Vec<(f64, String)>)> {
    let mut lines = table.lines().skip_while(|line| !line.starts_with("Type"));
    let header: Vec<_> =
        lines.next().unwrap().replace(" Latency", "").split_whitespace().map(str::to_owned).collect();
    let mut rows = Vec::new();
    for line in lines.skip(1).take_while(|line| !line.trim().is_empty()) {
        let cells: Vec<_> = line.split_whitespace().collect();
        // Labels may hold blanks, so columns are counted from the right.
        let cells = &cells[cells.len() - (header.len() - 1)..];
        let columns: Vec<_> = header[1..].iter().zip(cells).collect();
        let average = columns.iter().find(|(name, _)| *name == "Avg.").unwrap().1;
        let percentiles = columns
            .iter()
            .filter(|(name, _)| name.starts_with('p'))
            .map(|(name, cell)| (name[1..].parse().unwrap(), (**cell).to_owned()))
            .collect();
        rows.push((average.parse().unwrap_or(0.0), percentiles));
    }
    rows
}
