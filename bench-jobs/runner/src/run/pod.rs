//! What every step of a run works with.

use crate::{
    delivery::{agent::Guard, state::Shared},
    frame::job::Assignment,
    measuring::processes::Accounting,
    server::tls_files::{CertificateDirectories, TlsFiles},
    tools::{exec, output::Redactor},
};
use dragstrip_results::protocol::{JobSpec, JobTool};
use std::{net::SocketAddr, path::PathBuf, sync::Arc};

#[derive(Debug, Clone)]
pub struct Options {
    /// Directory for the tool's files; must be empty.
    pub output_directory: PathBuf,
    pub termination_log: PathBuf,
    pub listen: SocketAddr,
    pub certificates: CertificateDirectories,
    pub accounting: Accounting,
}

/// One client's assignment, and what its steps share.
pub struct Pod {
    pub job: JobSpec,
    /// The pod's index among the clients, from 0.
    pub client_index: u32,
    pub password: Option<String>,
    pub tls: Option<TlsFiles>,
    pub output_directory: PathBuf,
    pub accounting: Accounting,
    pub shared: Arc<Shared>,
    pub redactor: Redactor,
}

impl Pod {
    /// The pod, and what authenticates the operator.
    pub fn new(assignment: Assignment, options: &Options) -> (Self, Guard) {
        let Assignment { job, key, password, client_index } = assignment;
        let from_secrets = match &job.tool {
            JobTool::Exec(spec) => exec::secrets(spec),
            _ => Vec::new(),
        };
        let redactor = Redactor::new(from_secrets.iter().map(String::as_str).chain(password.as_deref()));
        let declared = &options.output_directory;
        let pod = Self {
            client_index,
            password,
            tls: TlsFiles::of(&job.target, &options.certificates),
            // The tool starts in this directory, where a relative path would mean another place.
            output_directory: std::path::absolute(declared).unwrap_or_else(|_| declared.clone()),
            accounting: options.accounting,
            shared: Arc::default(),
            redactor,
            job,
        };
        let guard = Guard { token: pod.job.token.clone(), key };
        (pod, guard)
    }

    /// Whether this pod does what one client does for all of them.
    pub fn is_first(&self) -> bool {
        self.client_index == 0
    }
}
