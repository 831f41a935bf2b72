//! Short digests. Pure.

use sha2::{Digest, Sha256};
use std::fmt::Write;

/// The first 12 hexadecimal digits of the SHA-256 of `text`.
pub fn digest(text: &str) -> String {
    let mut short = String::with_capacity(12);
    for byte in Sha256::digest(text.as_bytes()).iter().take(6) {
        // Writing into a String cannot fail.
        let _ = write!(short, "{byte:02x}");
    }
    short
}
