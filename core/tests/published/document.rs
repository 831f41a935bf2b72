//! docs/published.md, derived from the suites, their tables and the overlays for the testbed.

use super::{
    claims::{Claim, claims},
    file,
    machines::machines,
    rows::{SOURCES, Source},
    runs,
};
use std::{collections::BTreeSet, env, fmt::Write as _, fs, path::Path};

/// Set this variable to write the document instead of comparing it.
const UPDATE: &str = "UPDATE_PUBLISHED";

const HEAD: &str = "# Published tables, row by row

<!-- Written by the test `the_document_of_published_rows_is_current`: do not edit. -->

Every row of the published tables that [examples/published](../examples/README.md#do-i-get-the-numbers-that-they-published)
repeats, and every claim of their authors. A row is **strict** if its suite measures it with the same tool, the
same flags of tool and server, and the same topology. Machines are those published, or the nearest: each suite's
README says what cannot be had.
";

fn machine_list(name: &str) -> String {
    Vec::from_iter(machines(name)).join(", ")
}

/// Images that nobody publishes, as the suite's README describes them.
fn own_images(name: &str) -> String {
    let text = file(name, "suite.yaml");
    let words = text.split(|c: char| c.is_whitespace() || ['\"', '}', ','].contains(&c));
    let found: BTreeSet<&str> = words.filter_map(|word| word.strip_prefix("registry.example.com/")).collect();
    if found.is_empty() { "none".to_owned() } else { Vec::from_iter(found).join(", ") }
}

/// What the overlay for the testbed says of itself; without one, what the suite's README says.
fn testbed(name: &str) -> String {
    let overlay = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../examples/published/testbed")
        .join(name)
        .join("kustomization.yaml");
    if let Ok(text) = fs::read_to_string(overlay) {
        let comment = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
        return comment.collect::<Vec<_>>().join(" ");
    }
    let readme = file(name, "README.md");
    let said = readme.lines().find_map(|line| line.strip_prefix("**No overlay for the testbed**: "));
    said.unwrap_or_else(|| panic!("{name} has no overlay for the testbed, and its README does not say why"))
        .to_owned()
}

fn suites() -> BTreeSet<&'static str> {
    super::SUITES.iter().map(|(name, ..)| *name).collect()
}

fn summary() -> String {
    let rows: usize = SOURCES.iter().map(|source| source.rows).sum();
    let mut reasons: Vec<(String, usize)> = Vec::new();
    for why in SOURCES.iter().flat_map(Source::found).filter_map(|row| row.reason) {
        match reasons.iter_mut().find(|(other, _)| *other == why) {
            Some((_, count)) => *count += 1,
            None => reasons.push((why, 1)),
        }
    }
    let not: usize = reasons.iter().map(|(_, count)| count).sum();
    let mut text = format!("\n**{rows} rows are declared, {} of them strict.** The others:\n\n", rows - not);
    for (why, count) in reasons {
        let _ = writeln!(text, "- {count}: {why}");
    }
    text
}

fn suite_table() -> String {
    let mut text = "\n## Suites\n\n| suite | runs | machines | images to build | on the testbed |\n|---|--:|---|---|---|\n"
        .to_owned();
    for name in suites().into_iter().chain(super::WITHOUT_TABLE) {
        let _ = writeln!(
            text,
            "| [{name}](../examples/published/{name}) | {} | {} | {} | {} |",
            runs(name).len(),
            machine_list(name),
            own_images(name),
            testbed(name)
        );
    }
    text
}

fn row_table() -> String {
    let mut text = "\n## Rows\n\nFigures are those that the report compares with the published ones.\n\n\
                    | table | row | figures | suite | strict, or why not |\n|---|---|--:|---|---|\n"
        .to_owned();
    for source in &SOURCES {
        for row in source.found() {
            let strict = row.reason.unwrap_or_else(|| "yes".to_owned());
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {strict} |",
                source.name, row.name, row.figures, source.suite
            );
        }
    }
    text
}

fn range((low, high): (f64, f64)) -> String {
    let number = |value: f64| format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned();
    if high.total_cmp(&f64::MAX).is_eq() {
        format!("at least {}", number(low))
    } else {
        format!("{} to {}", number(low), number(high))
    }
}

fn claim_line(claim: &Claim) -> String {
    let value = claim.published.map_or_else(|| "not published".to_owned(), |value| format!("{value:.3}"));
    let state = match claim.holds() {
        Some(true) => "holds",
        Some(false) => "**does not hold**",
        None => "unknown",
    };
    format!(
        "| {} | {} | {} | {value} | {state} | [{suite}](../examples/published/{suite}) |\n",
        claim.source,
        claim.text,
        range(claim.means),
        suite = claim.suite
    )
}

fn claim_table() -> String {
    let head = "\n## Claims\n\nWhat the authors say of their tables, and what their own figures give: a ratio, or the \
                unit that the\nclaim names. The last column has the suite whose thresholds hold a measurement of your own against it, and\nallow a tenth.\n\n\
                | source | claim | meant as | published figures | | thresholds |\n|---|---|---|--:|---|---|\n";
    claims().iter().map(claim_line).fold(head.to_owned(), |text, line| text + &line)
}

#[test]
fn the_document_of_published_rows_is_current() {
    let text = [HEAD.to_owned(), summary(), suite_table(), row_table(), claim_table()].concat();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/published.md");
    if env::var_os(UPDATE).is_some() {
        fs::write(&path, &text).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let differs = written.lines().zip(text.lines()).position(|(old, new)| old != new);
    let line = differs.unwrap_or_else(|| written.lines().count().min(text.lines().count())) + 1;
    assert!(
        written == text,
        "docs/published.md is stale at line {line}: run {UPDATE}=1 cargo test -p dragstrip-core --test published to write it"
    );
}
