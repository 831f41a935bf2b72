//! The error replies that memtier writes to standard error, a line each. Pure.

use std::collections::BTreeMap;

/// What stands before each of them.
const ERROR_REPLY: &str = "handle error response:";
/// Most kinds: a server's every error may begin with another word.
const KINDS: usize = 64;
/// Longest kind, in characters.
const KIND_LENGTH: usize = 300;
/// Kind of the others, and of replies without a word.
const OTHER: &str = "OTHER";

/// The server's words, if a line reports an error reply.
pub fn error_reply(line: &str) -> Option<&str> {
    line.split_once(ERROR_REPLY).map(|(_, reply)| reply.trim())
}

/// `OOM` out of `-OOM command not allowed ...`.
pub fn error_word(reply: &str) -> &str {
    reply.trim_start_matches('-').split_whitespace().next().unwrap_or(OTHER)
}

/// Counts one more of a kind, of which there may be any number.
pub fn count(counts: &mut BTreeMap<String, u64>, kind: &str) {
    let kind: String = kind.chars().take(KIND_LENGTH).collect();
    let known = counts.contains_key(&kind) || counts.len() < KINDS;
    *counts.entry(if known { kind } else { OTHER.to_owned() }).or_default() += 1;
}
