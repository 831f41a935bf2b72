//! Writes the seeds of every fuzz target: `fuzz-seeds DIRECTORY` fills
//! `DIRECTORY/TARGET/`, and prints the targets' names.

use std::{env, fs, io::Write as _, path::PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = PathBuf::from(env::args_os().nth(1).ok_or("usage: fuzz-seeds DIRECTORY")?);
    for target in dragstrip_parser_checks::TARGETS {
        let corpus = directory.join(target.name);
        fs::create_dir_all(&corpus)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            fs::write(corpus.join(format!("seed-{number:03}")), &seed.data)?;
        }
        writeln!(std::io::stdout(), "{}", target.name)?;
    }
    Ok(())
}
