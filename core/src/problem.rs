//! What is wrong with an object. Pure.

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The field, as in spec.phases[0].name; empty if the message names it, or for the whole object.
    pub field: String,
    pub message: String,
}

impl Problem {
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }

    pub fn text(&self) -> String {
        // Many messages begin with the field.
        if self.field.is_empty() || self.message.starts_with(&self.field) {
            return self.message.clone();
        }
        format!("{}: {}", self.field, self.message)
    }
}
