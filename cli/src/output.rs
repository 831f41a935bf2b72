//! What commands print, and how: figures, messages of errors, reports, blocks that are redrawn.

pub mod block;
pub mod details;
pub mod errors;
pub mod figures;
pub mod format;
pub mod input;
pub mod print;
