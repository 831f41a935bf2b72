//! Prints the JSON Schema of reports as JSON; `make generate` keeps docs/report.schema.json
//! as it prints it.

use std::io::Write as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = serde_json::to_string_pretty(&dragstrip_report::json::schema())?;
    writeln!(std::io::stdout(), "{text}")?;
    Ok(())
}
