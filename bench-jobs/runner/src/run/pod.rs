//! What every step of a run works with. Touches the environment.

use crate::{
    delivery::{agent::Guard, state::Shared},
    frame::environment::{password, variable},
    measuring::processes::Accounting,
    server::access::tls_options,
    tools::{exec, output::Redactor},
};
use clap::Args;
use dragstrip_crds::workload::ToolSpec;
use dragstrip_loadgen::wire::tls::TlsOptions;
use dragstrip_results::protocol::{
    AUTHORITY_DIRECTORY, CLIENT_CERTIFICATE_DIRECTORY, INDEX_VARIABLE, JOB_VARIABLE, JobSpec,
    POD_NAME_VARIABLE, RUNNER_PORT,
};
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

/// Options of `run`.
#[derive(Debug, Args)]
pub struct Options {
    /// Directory for the tool's files; it must be empty or not exist.
    #[arg(long, default_value = "/dragstrip/output")]
    pub output_directory: PathBuf,
    /// File from which Kubernetes reads the termination message.
    #[arg(long, default_value = "/dev/termination-log")]
    pub termination_log: PathBuf,
    /// Address and port of the HTTP server.
    #[arg(long, default_value_t = (Ipv4Addr::UNSPECIFIED, RUNNER_PORT).into())]
    pub listen: SocketAddr,
    /// Directory with the authority's ca.crt, for targets with TLS.
    #[arg(long, default_value = AUTHORITY_DIRECTORY)]
    authority_directory: PathBuf,
    /// Directory with the client's tls.crt and tls.key, for targets that require them.
    #[arg(long, default_value = CLIENT_CERTIFICATE_DIRECTORY)]
    client_certificate_directory: PathBuf,
    /// Account for this process and its children instead of a container.
    #[arg(long)]
    without_container: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum JobError {
    #[error("the environment variable {JOB_VARIABLE} is not set: the operator sets it in every client pod")]
    Missing,
    #[error("{JOB_VARIABLE} does not hold a job: {0}; use an operator and a runner of the same version")]
    Decode(#[source] serde_json::Error),
    #[error("{JOB_VARIABLE} has no key to check the start command with")]
    Key,
    #[error("{INDEX_VARIABLE}={0:?} is not a number")]
    Index(String),
}

/// One client's job, and what its steps share.
pub struct Pod {
    pub job: JobSpec,
    /// The pod's index among the clients, from 0.
    pub client_index: u32,
    pub password: Option<String>,
    pub tls: Option<TlsOptions>,
    pub output_directory: PathBuf,
    pub accounting: Accounting,
    pub shared: Arc<Shared>,
    pub redactor: Redactor,
}

/// The pod's name; empty outside Kubernetes.
pub fn pod_name() -> String {
    variable(POD_NAME_VARIABLE).unwrap_or_default()
}

impl Pod {
    /// The pod by its environment, and what authenticates the operator.
    pub fn from_environment(options: &Options) -> Result<(Self, Guard), JobError> {
        let text = variable(JOB_VARIABLE).ok_or(JobError::Missing)?;
        let job: JobSpec = serde_json::from_str(&text).map_err(JobError::Decode)?;
        let key = job.verifying_key.clone().ok_or(JobError::Key)?;
        // A Job that is not indexed has one pod.
        let index = variable(INDEX_VARIABLE).unwrap_or_else(|| "0".to_owned());
        let client_index = index.parse().map_err(|_| JobError::Index(index))?;
        let password = password();
        let from_secrets = match &job.tool {
            ToolSpec::Exec(spec) => exec::secrets(spec),
            _ => Vec::new(),
        };
        let Options { authority_directory, client_certificate_directory, output_directory, .. } = options;
        let guard = Guard { token: job.token.clone(), key };
        let pod = Self {
            client_index,
            redactor: Redactor::new(from_secrets.iter().map(String::as_str).chain(password.as_deref())),
            password,
            tls: tls_options(&job.target, authority_directory, client_certificate_directory),
            // The tool starts in this directory, where a relative path would mean another place.
            output_directory: std::path::absolute(output_directory)
                .unwrap_or_else(|_| output_directory.clone()),
            accounting: Accounting::new(options.without_container),
            shared: Arc::default(),
            job,
        };
        Ok((pod, guard))
    }

    /// Whether this pod does what one client does for all of them.
    pub fn is_first(&self) -> bool {
        self.client_index == 0
    }
}
