//! What commands print, and how: figures, messages of errors, reports, progress.

pub mod details;
pub mod errors;
pub mod figures;
pub mod format;
pub mod input;
pub mod print;
pub mod screen;
