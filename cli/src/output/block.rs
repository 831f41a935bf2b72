//! A block of lines that is redrawn in place on a terminal. Touches standard output.

use super::print;

/// Moves to the beginning of the line and clears it.
pub const CLEAR_LINE: &str = "\r\x1b[2K";
/// Without line wrapping every line takes one row, however narrow the terminal is.
const WRAP_OFF: &str = "\x1b[?7l";
const WRAP_ON: &str = "\x1b[?7h";

#[derive(Debug, Default)]
pub struct Block {
    rows: usize,
}

impl Block {
    /// Draws `lines` in the place of the last ones.
    pub fn draw(&mut self, lines: &[String]) -> Result<(), print::Error> {
        let up = if self.rows > 0 { format!("\x1b[{}A\x1b[J", self.rows) } else { String::new() };
        self.rows = lines.len();
        print::print(&format!("{up}{WRAP_OFF}{}{WRAP_ON}", print::lines(lines.iter().cloned())))
    }
}
