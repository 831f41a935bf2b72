//! The forms of a report: each renders the document and nothing else. Pure.

pub mod csv;
pub mod html;
pub mod json;
pub mod junit;
pub mod markdown;
pub mod text;
mod words;
