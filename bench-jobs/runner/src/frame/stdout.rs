//! The runner's own log. Touches stdout.

use std::io::{self, Write as _};

/// Writes a line at once. A log that is gone must not end a measurement.
pub fn print_line(line: &str) {
    let mut stdout = io::stdout().lock();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}
