//! Prints the size of the workspace in the current directory as Markdown: lines and functions
//! by crate, and the cycles of modules inside each crate. Reads source files; writes nothing.

mod crates;
mod cycles;
mod imports;
mod modules;
mod report;
mod size;

use anyhow::Result;

fn main() -> Result<()> {
    let measured = crates::list()?.iter().map(report::measure).collect::<Result<Vec<_>>>()?;
    print!("{}", report::markdown(&measured));
    Ok(())
}
