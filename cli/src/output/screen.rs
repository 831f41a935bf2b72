//! The progress of a command: a line for each step, and on a terminal a line that changes in
//! between. Touches standard error.

use std::{
    io::{IsTerminal as _, Write as _, stderr},
    time::{Duration, Instant},
};

/// How often progress is printed where there is no terminal.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);
/// Moves to the beginning of the line and clears it.
const CLEAR_LINE: &str = "\r\x1b[2K";
/// Without line wrapping every text takes one line, however narrow the terminal is.
const WRAP_OFF: &str = "\x1b[?7l";
const WRAP_ON: &str = "\x1b[?7h";

#[derive(Debug)]
pub struct Screen {
    terminal: bool,
    /// Whether the cursor is in an unfinished line.
    open: bool,
    printed: Instant,
}

impl Default for Screen {
    fn default() -> Self {
        Self { terminal: stderr().is_terminal(), open: false, printed: Instant::now() }
    }
}

impl Screen {
    fn write(text: &str) {
        // A closed standard error must not make the command fail.
        let mut stderr = stderr().lock();
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }

    pub fn step(&mut self, text: &str) {
        let begin = if self.open { CLEAR_LINE } else { "" };
        Self::write(&format!("{begin}{text}\n"));
        (self.open, self.printed) = (false, Instant::now());
    }

    /// Prints the progress of a step: at once on a terminal, replacing the last one, elsewhere rarely.
    pub fn progress(&mut self, text: &str) {
        if self.terminal {
            Self::write(&format!("{CLEAR_LINE}{WRAP_OFF}{text}{WRAP_ON}"));
            self.open = true;
        } else if self.printed.elapsed() >= PLAIN_INTERVAL {
            self.step(text);
        }
    }
}
