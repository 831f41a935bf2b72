//! What must be true before a load may start: the servers are reachable, let the client
//! in, are those that were verified, form a complete cluster where one is declared,
//! and the tool can write its files. Touches the network and the output directory.

use crate::server::{
    access::{Access, CertificateError},
    connection::{self, ANSWER_TIMEOUT, Server, ServerError},
    members::{self, Member, MemberError},
    resolve::{self, ResolveError},
};
use dragstrip_crds::{datastore::ServerProtocol, observed::ServerTruth, workload::ToolSpec};
use dragstrip_loadgen::wire::tls::TlsOptions;
use dragstrip_results::{
    protocol::{JobSpec, JobTarget},
    result::FailureStep,
};
use std::{
    fs, io,
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

/// How long a target may stay unreachable before the check fails: network policies
/// take a moment to let a new pod out, and people should not wait for more.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_secs(1);

/// A check that failed. Every message says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum PreflightError {
    #[error(
        "{target}: {source}. Check the target's address, and that its Service exists in the namespace named"
    )]
    Resolve { target: String, source: ResolveError },
    #[error("{target}: {source}. {advice}")]
    Server { target: String, source: ServerError, advice: String },
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    #[error(
        "{target}: declared cluster mode {declared}, the server reports {actual}. Declare the mode it runs in (cluster; for a single Dragonfly with --cluster_mode=emulated emulatedCluster), or restart it in the declared one"
    )]
    ClusterMode { target: String, declared: &'static str, actual: &'static str },
    #[error(transparent)]
    Member(#[from] MemberError),
    #[error("cannot use the output directory {directory}: {source}. Mount an empty, writable volume there")]
    Output { directory: String, source: io::Error },
}

impl PreflightError {
    /// The step that failed. Nothing was loaded yet: a server that is another one is verified and
    /// measured again, unless results of the one before it are stored.
    pub fn step(&self) -> FailureStep {
        match self {
            Self::Member(MemberError::Replaced { .. }) => FailureStep::Lost,
            _ => FailureStep::Preflight,
        }
    }

    fn may_pass(&self) -> bool {
        matches!(self, Self::Resolve { .. } | Self::Server { source: ServerError::Connect(_), .. })
    }
}

#[derive(Clone)]
pub struct Ready {
    pub address: SocketAddr,
    pub access: Access,
    /// What the server is; `None` where it does not speak RESP.
    pub truth: Option<ServerTruth>,
    /// Every server of the target; empty where they do not speak RESP.
    pub members: Vec<Member>,
    pub replica_reads: bool,
}

impl Ready {
    /// The servers that take writes.
    pub fn primaries(&self) -> impl Iterator<Item = SocketAddr> {
        self.members.iter().filter(|member| !member.replica).map(|member| member.address)
    }
}

pub async fn check(
    job: &JobSpec,
    password: Option<&str>,
    tls: Option<&TlsOptions>,
    output_directory: &Path,
) -> Result<Ready, PreflightError> {
    check_output(output_directory)?;
    let target = &job.target;
    let access = Access::new(target.username.clone(), password.map(str::to_owned), tls)?;
    let replica_reads = matches!(&job.tool, ToolSpec::Loadgen(spec) if spec.replica_reads);
    if target.protocol == ServerProtocol::Tcp {
        let (address, _) = patiently(target, async |address| connection::reach(address).await).await?;
        return Ok(Ready { address, access, truth: None, members: Vec::new(), replica_reads });
    }
    let connect = async |address| Server::connect(address, &access, ANSWER_TIMEOUT).await;
    let (address, mut server) = patiently(target, connect).await?;
    let name = target_name(target, Some(address));
    let refused = |source| refusal(name.clone(), target, source);
    server.command::<()>(&["PING"]).await.map_err(refused)?;
    let truth = server.truth().await.map_err(refused)?;
    check_truth(target, &name, &truth)?;
    let members = members::find(target, &access, address, &mut server, &truth, replica_reads).await?;
    Ok(Ready { address, access, truth: Some(truth), members, replica_reads })
}

async fn patiently<T>(
    target: &JobTarget,
    connect: impl AsyncFn(SocketAddr) -> Result<T, ServerError>,
) -> Result<(SocketAddr, T), PreflightError> {
    let started = Instant::now();
    loop {
        match once(target, &connect).await {
            Err(error) if error.may_pass() && started.elapsed() + PAUSE < PATIENCE => {
                tokio::time::sleep(PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

/// Tries all addresses of the target; the last one's error counts.
async fn once<T>(
    target: &JobTarget,
    connect: &impl AsyncFn(SocketAddr) -> Result<T, ServerError>,
) -> Result<(SocketAddr, T), PreflightError> {
    let unresolved = |source| PreflightError::Resolve { target: target_name(target, None), source };
    let addresses = resolve::resolve(&target.host, target.port, &target.blocked).await;
    let mut outcome = Err(unresolved(ResolveError::NoAddress));
    for address in addresses.map_err(unresolved)? {
        match connect(address).await {
            Ok(connection) => return Ok((address, connection)),
            Err(source) => outcome = Err(refusal(target_name(target, Some(address)), target, source)),
        }
    }
    outcome
}

/// `host:port`, with the address behind it where that is another text.
fn target_name(target: &JobTarget, address: Option<SocketAddr>) -> String {
    let declared = format!("{}:{}", target.host, target.port);
    match address.map(|address| address.to_string()) {
        Some(address) if address != declared => format!("{declared} ({address})"),
        _ => declared,
    }
}

fn refusal(target: String, declared: &JobTarget, source: ServerError) -> PreflightError {
    let advice = match (&source, source.code()) {
        (_, Some("LOADING")) => return MemberError::Loading(target).into(),
        (ServerError::Encrypt(_), _) => {
            let name = declared.tls.as_ref().and_then(|tls| tls.server_name.as_ref());
            format!(
                "Check tls: the server must speak TLS there, and its certificate must be valid for {} and signed by \
                 the authority named",
                name.unwrap_or(&declared.host)
            )
        }
        (ServerError::Connect(_), _) => {
            "Check that the server runs and listens there, and that no NetworkPolicy blocks the connection"
                .to_owned()
        }
        (ServerError::Authenticate(_), _) | (_, Some("NOAUTH" | "WRONGPASS")) => {
            "Check username and authSecretRef: they must name a user and password that the server knows"
                .to_owned()
        }
        _ => "Check that a RESP server listens there, with TLS only if tls is declared".to_owned(),
    };
    PreflightError::Server { target, source, advice }
}

fn check_truth(target: &JobTarget, name: &str, truth: &ServerTruth) -> Result<(), PreflightError> {
    members::check_process(name, truth, target.run_id.as_deref())?;
    let mode = |cluster| if cluster { "on" } else { "off" };
    let declared = target.cluster || target.emulated_cluster;
    if truth.cluster_enabled == declared {
        return Ok(());
    }
    let (declared, actual) = (mode(declared), mode(truth.cluster_enabled));
    Err(PreflightError::ClusterMode { target: name.to_owned(), declared, actual })
}

/// The directory must be writable and empty: no old result may be read as a new one.
fn check_output(directory: &Path) -> Result<(), PreflightError> {
    let steps = || {
        fs::create_dir_all(directory)?;
        if let Some(entry) = fs::read_dir(directory)?.next() {
            let name = entry?.file_name();
            return Err(io::Error::other(format!("it is not empty: it holds {}", name.display())));
        }
        let probe = directory.join("probe");
        fs::write(&probe, "probe")?;
        fs::remove_file(probe)
    };
    steps().map_err(|source| PreflightError::Output { directory: directory.display().to_string(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        server::{
            info::Info,
            truth::{Settings, read_truth},
        },
        tests::fixtures,
    };

    fn target(cluster: bool, run_id: Option<&str>) -> JobTarget {
        JobTarget { cluster, run_id: run_id.map(str::to_owned), ..fixtures::target() }
    }

    fn verdict(target: &JobTarget, info: &str) -> String {
        let info = Info::parse(info);
        let run_id = info.text("run_id").unwrap_or_default().to_owned();
        let truth = read_truth(&info, run_id, &Settings::new());
        check_truth(target, "db:6379", &truth).map_or_else(|e| e.to_string(), |()| "fine".to_owned())
    }

    #[test]
    fn the_declared_server_passes() {
        assert_eq!(verdict(&target(false, Some("a")), "run_id:a"), "fine");
        assert_eq!(verdict(&target(true, None), "run_id:a\ncluster_enabled:1"), "fine");
    }

    #[test]
    fn a_replaced_server_is_named_with_both_ids() {
        let message = verdict(&target(false, Some("aaa")), "run_id:bbb");
        assert!(
            message.contains("restarted or replaced before the load: verified was aaa, now bbb"),
            "{message}"
        );
    }

    #[test]
    fn loading_and_the_wrong_mode_are_refused() {
        assert!(verdict(&target(false, None), "loading:1").contains("still loading"));
        let message = verdict(&target(true, None), "cluster_enabled:0");
        assert!(message.contains("declared cluster mode on, the server reports off"), "{message}");
        let message = verdict(&target(false, None), "cluster_enabled:1");
        assert!(message.contains("declared cluster mode off, the server reports on"), "{message}");
        assert!(message.contains("--cluster_mode=emulated emulatedCluster"), "{message}");
    }

    #[test]
    fn a_declared_emulated_cluster_passes_and_its_absence_is_refused() {
        let declared = JobTarget { emulated_cluster: true, ..target(false, None) };
        assert_eq!(verdict(&declared, "redis_mode:cluster\ncluster_enabled:1"), "fine");
        let message = verdict(&declared, "redis_mode:standalone\ncluster_enabled:0");
        assert!(message.contains("declared cluster mode on, the server reports off"), "{message}");
    }

    #[test]
    fn an_output_directory_is_made_but_must_be_empty() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("a/b");
        check_output(&directory).unwrap();
        fs::write(directory.join("old.json"), "").unwrap();
        let message = check_output(&directory).unwrap_err().to_string();
        assert!(message.contains("it holds old.json"), "{message}");
        assert!(check_output(&directory.join("old.json")).is_err());
    }
}
