//! The command line.

use crate::{
    frame::{install, job},
    measuring::processes::Accounting,
    observe, run,
    server::tls_files::{CertificateDirectories, CertificateFiles, TlsFiles},
};
use clap::{Args, Parser, Subcommand};
use dragstrip_results::{
    error_chain::chain,
    protocol::{
        AUTHORITY_DIRECTORY, CLIENT_CERTIFICATE_DIRECTORY, OBSERVER_PORT, RUNNER_PORT,
        SERVER_CERTIFICATE_DIRECTORY,
    },
    signing::VERIFYING_KEY_VARIABLE,
};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
};

/// Runs benchmark clients, and observes servers, for the Dragstrip operator.
#[derive(Debug, Parser)]
#[command(name = "dragstrip-runner", version, about, max_term_width = 100)]
pub struct Cli {
    /// The task to run.
    #[command(subcommand)]
    pub role: Role,
}

/// The tasks of the program.
#[derive(Debug, Subcommand)]
pub enum Role {
    /// Copy this program, and the load generator beside it, into a directory.
    ///
    /// For an init container: the main container, made from the tool's own
    /// image, then starts the runner from the volume they share.
    Install {
        /// Target directory; created if it does not exist.
        directory: PathBuf,
    },
    /// Check the target, wait for the start command, run the tool, deliver its result.
    #[command(after_long_help = RUN_HELP)]
    Run(RunArguments),
    /// Observe the server beside this container, and report about it over HTTP.
    #[command(after_long_help = OBSERVE_HELP)]
    Observe(ObserveArguments),
}

const RUN_HELP: &str = "\
Environment:
  DRAGSTRIP_JOB          the job as JSON (JobSpec)
  DRAGSTRIP_PASSWORD     the target's password, if it requires one
  POD_NAME               the pod's own name
  JOB_COMPLETION_INDEX   the pod's index among the clients, from 0

HTTP:
  GET  /ready        200 at the start line or later, 503 with the stage before
  POST /v1/start     accept a StartCommand; the first one counts; 409 before the start line
  GET  /v1/progress  the runner's stage and the tool's progress
  GET  /v1/clock     the runner's clock, which the operator compares with its own
  GET  /metrics      live metrics for Prometheus
  Requests under /v1 need the job's token in the header x-dragstrip-token;
  POST /v1/start also needs the operator's signature in x-dragstrip-signature.

The runner always writes a result: as one line DRAGSTRIP-RESULT {json} on
stdout, and to the termination log, shortened if it exceeds 4096 bytes.

SIGTERM and SIGINT end the tool in the way it needs to write its result, and mark
the result as interrupted; before the start line they end the runner at once.

Exit codes:
  0  the numbers can be used
  2  the command line is invalid
  3  the numbers cannot be used; the delivered result says why
  4  the runner could not deliver the result to both places";

const OBSERVE_HELP: &str = "\
Environment:
  DRAGSTRIP_PASSWORD       the server's password, if it requires one
  DRAGSTRIP_TOKEN          the token that requests under /v1 need in x-dragstrip-token
  DRAGSTRIP_VERIFYING_KEY  the operator's public key: /v1/usage and /v1/topology also need
                           the operator's signature in x-dragstrip-signature

HTTP:
  GET  /ready        200 if the server answers PING and has loaded its data set
  GET  /v1/observed  facts about the server, its container and its machine
  GET  /v1/memory    the memory of each server, by its own account and its container's
  POST /v1/usage     accept a UsageCommand: sample what the servers use until its time is over
  GET  /v1/usage     what the servers used in a UsageWindow; ends the sampling
  GET  /v1/clock     the observer's clock, which the operator compares with its own
  POST /v1/topology  accept a TopologyCommand: join servers to a cluster or a primary;
                     servers that are joined already stay as they are
  GET  /metrics      live metrics of the server for Prometheus

The observer finds the server's container through a process namespace that the pod's
containers share, as the same user id; without one, it reports no CPU or memory of the
container. With --without-resp it sends nothing to the server: /ready and /v1/observed
answer 503, and memory is the kernel's account of the process and container.";

/// Options of `run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// Directory for the tool's files; it must be empty or not exist.
    #[arg(long, default_value = "/dragstrip/output")]
    output_directory: PathBuf,
    /// File from which Kubernetes reads the termination message.
    #[arg(long, default_value = "/dev/termination-log")]
    termination_log: PathBuf,
    /// Address and port of the HTTP server.
    #[arg(long, default_value_t = everywhere(RUNNER_PORT))]
    listen: SocketAddr,
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

/// Options of `observe`.
#[derive(Debug, Args)]
pub struct ObserveArguments {
    /// Port of the server.
    #[arg(long, default_value_t = 6379)]
    port: u16,
    /// Number of servers, on consecutive ports.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    servers: u16,
    /// Encrypt connections, and require that the server's certificate is valid for this name.
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// Directory with the ca.crt that must have signed the certificate.
    #[arg(long, default_value = SERVER_CERTIFICATE_DIRECTORY)]
    tls_authority_directory: PathBuf,
    /// Directory with the tls.crt and tls.key to present to the server.
    #[arg(long, requires = "tls_server_name")]
    tls_client_directory: Option<PathBuf>,
    /// IP address of the server.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    server_address: IpAddr,
    /// Address and port of the HTTP server.
    #[arg(long, default_value_t = everywhere(OBSERVER_PORT))]
    listen: SocketAddr,
    /// Process name of the server [default: any known server, else any other process].
    #[arg(long, value_name = "NAME")]
    server_process: Option<String>,
    /// Account for the processes that listen on the ports instead of containers.
    #[arg(long)]
    without_container: bool,
    /// Send nothing to the servers, which do not speak RESP; report what they use.
    #[arg(long)]
    without_resp: bool,
}

fn accounting(without_container: bool) -> Accounting {
    if without_container { Accounting::Processes } else { Accounting::Container }
}

fn everywhere(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)
}

impl Cli {
    /// Runs the task.
    pub async fn execute(self) -> ExitCode {
        match self.role {
            Role::Install { directory } => report(install::install(&directory).map(|files| {
                for file in files {
                    crate::frame::stdout::print_line(&format!("installed {}", file.display()));
                }
            })),
            Role::Run(arguments) => ExitCode::from(Box::pin(run::run(&arguments.into())).await),
            Role::Observe(arguments) => report(observe::observe(arguments.into()).await),
        }
    }
}

impl From<RunArguments> for run::Options {
    fn from(arguments: RunArguments) -> Self {
        let RunArguments {
            output_directory,
            termination_log,
            listen,
            authority_directory,
            client_certificate_directory,
            without_container,
        } = arguments;
        let certificates =
            CertificateDirectories { authority: authority_directory, client: client_certificate_directory };
        let accounting = accounting(without_container);
        Self { output_directory, termination_log, listen, certificates, accounting }
    }
}

impl From<ObserveArguments> for observe::Options {
    fn from(arguments: ObserveArguments) -> Self {
        let ObserveArguments { tls_authority_directory, tls_client_directory, .. } = &arguments;
        let client = tls_client_directory.as_ref().map(|directory| CertificateFiles {
            certificate: directory.join("tls.crt"),
            key: directory.join("tls.key"),
        });
        let tls = arguments.tls_server_name.clone().map(|server_name| TlsFiles {
            server_name,
            authority: Some(tls_authority_directory.join("ca.crt")),
            client,
            insecure_skip_verify: false,
        });
        Self {
            server: SocketAddr::new(arguments.server_address, arguments.port),
            servers: arguments.servers,
            tls,
            listen: arguments.listen,
            process_name: arguments.server_process,
            password: job::password(),
            token: job::variable(observe::TOKEN_VARIABLE),
            verifying_key: job::variable(VERIFYING_KEY_VARIABLE),
            accounting: accounting(arguments.without_container),
            speaks_resp: !arguments.without_resp,
        }
    }
}

/// Success, or the error with all its causes on stderr.
fn report<E: std::error::Error + 'static>(outcome: Result<(), E>) -> ExitCode {
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    eprintln!("{}", chain(&error));
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_defaults_are_those_of_a_pod() {
        let cli = Cli::parse_from(["dragstrip-runner", "run"]);
        let Role::Run(arguments) = cli.role else { panic!("another role") };
        assert_eq!(arguments.listen.to_string(), "0.0.0.0:9181");
        assert_eq!(arguments.termination_log, PathBuf::from("/dev/termination-log"));
    }
}
