//! What the pod was given: the job, the password, its own name and index.
//! Touches the environment.

use dragstrip_results::{
    protocol::{INDEX_VARIABLE, JOB_VARIABLE, JobSpec, PASSWORD_VARIABLE, POD_NAME_VARIABLE},
    signing::VerifyingKey,
};

#[derive(Debug, thiserror::Error)]
pub enum JobError {
    #[error("the environment variable {0} is not set: the operator sets it in every client pod")]
    Missing(&'static str),
    #[error("{JOB_VARIABLE} does not hold a job: {0}; use an operator and a runner of the same version")]
    Decode(#[source] serde_json::Error),
    #[error("{JOB_VARIABLE} has no key to check the start command with")]
    Key,
    #[error("{INDEX_VARIABLE}={0:?} is not a number")]
    Index(String),
}

#[derive(Clone)]
pub struct Assignment {
    pub job: JobSpec,
    /// The key that must have signed the start command.
    pub key: VerifyingKey,
    pub password: Option<String>,
    /// The pod's index among the clients, from 0.
    pub client_index: u32,
}

/// The pod's name; empty outside Kubernetes.
pub fn pod_name() -> String {
    std::env::var(POD_NAME_VARIABLE).unwrap_or_default()
}

/// An environment variable; `None` also for an empty one.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

pub fn password() -> Option<String> {
    variable(PASSWORD_VARIABLE)
}

pub fn assignment() -> Result<Assignment, JobError> {
    let text = std::env::var(JOB_VARIABLE).map_err(|_| JobError::Missing(JOB_VARIABLE))?;
    let job: JobSpec = serde_json::from_str(&text).map_err(JobError::Decode)?;
    let key = job.verifying_key.clone().ok_or(JobError::Key)?;
    // A Job that is not indexed has one pod.
    let index = std::env::var(INDEX_VARIABLE).unwrap_or_else(|_| "0".to_owned());
    let client_index = index.parse().map_err(|_| JobError::Index(index))?;
    Ok(Assignment { job, key, password: password(), client_index })
}
