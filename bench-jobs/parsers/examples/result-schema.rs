//! Prints the JSON Schema of Dragstrip's result format; `make generate` keeps
//! docs/result.schema.json as it prints it.

use std::io::Write as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = serde_json::to_string_pretty(&dragstrip_parsers::schema())?;
    writeln!(std::io::stdout(), "{text}")?;
    Ok(())
}
