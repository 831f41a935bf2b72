//! Environment variables that the operator sets in the pod. Touches the environment.

use dragstrip_results::protocol::PASSWORD_VARIABLE;

/// An environment variable; `None` also for an empty one.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

pub fn password() -> Option<String> {
    variable(PASSWORD_VARIABLE)
}
