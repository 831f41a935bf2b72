//! The outcome of a step. Pure.

use dragstrip_core::{run::decide::Step, trouble::Trouble};

#[derive(Debug, Clone, PartialEq)]
pub enum Applied {
    /// Something was done: the next pass comes at once.
    Progressed,
    /// Something was done whose own event brings the next pass.
    Awaited,
    Nothing,
    /// Another operator has gone on, and nothing was done: the step says nothing about the run.
    Superseded,
    /// Not possible now, and nothing runs: the run releases its turn, if that loses nothing.
    Hindered(Trouble),
    /// Not possible now, though it may be in a moment; what runs continues.
    Delayed(Trouble, Step),
    /// Not possible now: this step takes its place.
    Instead(Step),
}
