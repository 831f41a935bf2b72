//! Why pods do not start. Pure.

/// A reason for a condition, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Kubernetes' own reason, such as `ImagePullBackOff` or `Unschedulable`.
    pub reason: String,
    /// What is wrong, with the remedy where one is known.
    pub message: String,
}
