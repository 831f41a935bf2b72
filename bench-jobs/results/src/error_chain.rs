//! An error and its causes as one line of text. Pure.

use std::{error::Error, iter::successors};

/// `error` and all its causes, separated by colons.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    chain_with(error, ToString::to_string)
}

/// The same with `text` for each error; empty texts are left out.
pub fn chain_with<'a>(
    error: &'a (dyn Error + 'static),
    text: impl Fn(&'a (dyn Error + 'static)) -> String,
) -> String {
    let all = successors(Some(error), |error| (*error).source()).map(text);
    all.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ")
}
