//! Why pods do not start. Pure.

/// Reason of a run whose clients have no place in the cluster.
pub const NO_PLACE: &str = "NoPlace";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Kubernetes' own reason, such as `ImagePullBackOff` or `Unschedulable`.
    pub reason: String,
    /// What is wrong, with the remedy where one is known.
    pub message: String,
}
