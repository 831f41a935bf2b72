//! Writes sample pages into a directory, for looking at them and for the browser's test:
//!
//!     cargo run -p dragstrip-report --example page -- DIRECTORY

mod samples;

use std::{env, fs, io, path::PathBuf};

fn main() -> io::Result<()> {
    let directory = env::args().nth(1).map(PathBuf::from);
    let directory = directory.ok_or_else(|| io::Error::other("which directory to write the pages into?"))?;
    fs::create_dir_all(&directory)?;
    for (name, document) in samples::all() {
        let file = directory.join(format!("{name}.html"));
        let page = dragstrip_report::html::render(&document);
        fs::write(&file, &page)?;
        println!("{}: {} KB", file.display(), page.len() / 1000);
    }
    Ok(())
}
