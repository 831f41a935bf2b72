//! What the pod was given: the job, the password, its own name and index.
//! Touches the environment.

use dragstrip_results::{
    protocol::{INDEX_VARIABLE, JOB_VARIABLE, JobSpec, PASSWORD_VARIABLE, POD_NAME_VARIABLE},
    result::{Failure, FailureStep},
};

/// Why the job cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    #[error("the environment variable {0} is not set: the runner is started by the operator, which sets it")]
    Missing(&'static str),
    #[error(
        "{JOB_VARIABLE} does not hold a job: {0}; the operator and the runner must be of the same version"
    )]
    Decode(#[source] serde_json::Error),
    #[error("{INDEX_VARIABLE}={0:?} is not a number")]
    Index(String),
}

impl JobError {
    /// The same as a result's failure.
    pub fn failure(&self) -> Failure {
        crate::frame::failure::failure(FailureStep::Job, self.to_string())
    }
}

/// A pod's whole input.
#[derive(Clone)]
pub struct Assignment {
    /// The job.
    pub job: JobSpec,
    /// The target's password.
    pub password: Option<String>,
    /// The pod's index among the clients, from 0.
    pub client_index: u32,
}

/// The pod's name; empty outside Kubernetes.
pub fn pod_name() -> String {
    std::env::var(POD_NAME_VARIABLE).unwrap_or_default()
}

/// The password; an empty one is none.
pub fn password() -> Option<String> {
    std::env::var(PASSWORD_VARIABLE).ok().filter(|password| !password.is_empty())
}

/// Reads the environment.
pub fn assignment() -> Result<Assignment, JobError> {
    let variable = |name| std::env::var(name).map_err(|_| JobError::Missing(name));
    let job = serde_json::from_str(&variable(JOB_VARIABLE)?).map_err(JobError::Decode)?;
    // A Job that is not indexed has one pod.
    let index = std::env::var(INDEX_VARIABLE).unwrap_or_else(|_| "0".to_owned());
    let client_index = index.parse().map_err(|_| JobError::Index(index))?;
    Ok(Assignment { job, password: password(), client_index })
}
