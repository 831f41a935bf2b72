//! Generates the command reference in docs/cli.md from the help texts, or checks that it is
//! current. Reads and writes that file.

use std::{fs, path::Path};

/// The end of the part that is written by hand.
const MARK: &str = "<!-- Generated from the help texts below this line: DRAGSTRIP_WRITE_REFERENCE=1 cargo test -p dragstrip reference -->\n";

#[test]
fn the_reference_is_current() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli.md");
    let options = clap_markdown::MarkdownOptions::new().show_footer(false).show_table_of_contents(false);
    let made = clap_markdown::help_markdown_command_custom(&crate::program_command(None), &options);
    let made = crate::output::print::lines(made.lines().map(|line| line.trim_end().to_owned()));
    let text = fs::read_to_string(&file).unwrap();
    let (before, written) = text.split_once(MARK).unwrap();
    if std::env::var_os("DRAGSTRIP_WRITE_REFERENCE").is_some() {
        fs::write(&file, format!("{before}{MARK}\n{}\n", made.trim())).unwrap();
        return;
    }
    assert!(
        written.trim() == made.trim(),
        "docs/cli.md is stale: DRAGSTRIP_WRITE_REFERENCE=1 cargo test -p dragstrip reference"
    );
}
