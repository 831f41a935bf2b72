//! A combination of a suite. Pure.

use dragstrip_report::document::Cell;
use sha2::{Digest, Sha256};

/// A combination and what its runs are called by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedCell {
    /// The variant and a value of each axis.
    pub cell: Cell,
    /// The same in words, such as `redis-8 threads=2 pipeline=10`.
    pub words: String,
    /// Eight hexadecimal digits, unique in the suite.
    pub digest: String,
    /// Digest of the spec that its runs are given; empty where that cannot be written.
    pub given_spec: String,
    pub(super) variant: usize,
    pub(super) values: Vec<usize>,
}

/// The digest of `parts`, none of which can be taken for two.
pub(super) fn digest(parts: &[&str]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part.len().to_be_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}
