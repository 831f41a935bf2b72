//! Joins servers over RESP: shards to a cluster, replicas to a primary. What to
//! do is decided by the pure modules from what the servers say, every time anew,
//! so that any command may be repeated and any attempt may be cut short.
//! Touches the network.

pub mod cluster;
pub mod nodes;
pub mod replication;
pub mod slots;
pub mod step;

use crate::server::{
    access::Access,
    connection::{ANSWER_TIMEOUT, Server, ServerError},
};
use dragstrip_results::protocol::{TopologyCommand, TopologyMember, TopologyState};
use std::{net::SocketAddr, time::Duration};
use step::{Step, Verdict};
use tokio::time::{Instant, sleep};

/// How long a command may wait for servers to learn of each other. The operator
/// repeats it until everything is joined.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long after that servers may still be queried.
const LAST_QUERIES: Duration = Duration::from_secs(3);
/// Between two looks at servers that are learning.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The servers of a command, with a connection to each that answers.
struct Servers<'a> {
    access: &'a Access,
    members: Vec<Member>,
}

struct Member {
    address: SocketAddr,
    connection: Option<Server>,
}

impl Servers<'_> {
    /// Queries a server over its open connection. A failed answer closes it, so
    /// that the next query finds a restarted server.
    async fn query<T>(
        &mut self,
        index: usize,
        query: impl AsyncFnOnce(&mut Server) -> Result<T, ServerError>,
    ) -> Result<T, ServerError> {
        let member = &mut self.members[index];
        let mut server = match member.connection.take() {
            Some(server) => server,
            None => Server::connect(member.address, self.access, ANSWER_TIMEOUT).await?,
        };
        let answer = query(&mut server).await;
        if answer.is_ok() {
            member.connection = Some(server);
        }
        answer
    }

    async fn shard(&mut self, index: usize) -> cluster::Shard {
        let answer = self
            .query(index, async |server: &mut Server| {
                let table = server.cluster_table().await?;
                let state_ok = server.cluster_info().await?.text("cluster_state") == Some("ok");
                Ok((table, state_ok, server.key_count().await?))
            })
            .await;
        let view = answer.map_err(|error| error.to_string()).and_then(|(table, state_ok, keys)| {
            let nodes = nodes::parse(&table).ok_or_else(|| format!("cannot read CLUSTER NODES: {table}"))?;
            Ok(cluster::View { nodes, state_ok, keys })
        });
        cluster::Shard { address: self.members[index].address, view }
    }

    async fn peer(&mut self, index: usize) -> replication::Peer {
        let answer = self.query(index, async |server: &mut Server| server.info().await).await;
        replication::Peer {
            address: self.members[index].address,
            view: answer.map(|info| replication::View::read(&info)).map_err(|error| error.to_string()),
        }
    }

    /// Looks at every shard and decides. One that is silent decides alone.
    async fn look_at_cluster(&mut self) -> Verdict {
        let mut shards = Vec::with_capacity(self.members.len());
        for index in 0..self.members.len() {
            shards.push(self.shard(index).await);
            if shards.last().is_some_and(|shard| shard.view.is_err()) {
                break;
            }
        }
        cluster::decide(&shards)
    }

    /// Looks at the primary, then at its replicas, and decides.
    async fn look_at_replication(&mut self) -> Verdict {
        let mut peers = Vec::with_capacity(self.members.len());
        for index in 0..self.members.len() {
            peers.push(self.peer(index).await);
            if peers.last().is_some_and(|peer| peer.view.is_err()) {
                break;
            }
        }
        replication::decide(&peers)
    }

    /// A look and what follows from it; the end of the command, if this is it.
    async fn round(
        &mut self,
        command: &TopologyCommand,
        progress: &mut Progress,
        out_of_time: bool,
    ) -> Option<End> {
        let verdict = match command {
            TopologyCommand::Cluster { .. } => self.look_at_cluster().await,
            TopologyCommand::Replication { .. } => self.look_at_replication().await,
        };
        let end = progress.end(&verdict, out_of_time);
        if let (None, Verdict::Do(steps)) = (&end, verdict) {
            for step in steps {
                let outcome = self.carry_out(&step).await;
                progress.note(self.members[step.server].address, &step, outcome);
            }
        }
        end
    }

    async fn carry_out(&mut self, step: &Step) -> Result<(), ServerError> {
        // A restarted replica has lost its primary's password together with its primary.
        let password = self.access.password.clone().filter(|_| step.name == replication::REPLICAOF);
        self.query(step.server, async |server: &mut Server| {
            if let Some(password) = &password {
                server.set_primary_password(password).await?;
            }
            server.command(step.name, &step.arguments).await
        })
        .await
    }

    /// Every server as it is now, as far as they answer before `deadline`.
    async fn account(&mut self, command: &TopologyCommand, deadline: Instant) -> Vec<TopologyMember> {
        let mut found = Vec::with_capacity(self.members.len());
        for index in 0..self.members.len() {
            let clustered = matches!(command, TopologyCommand::Cluster { .. });
            let role = match index {
                _ if clustered => "shard",
                0 => "primary",
                _ => "replica",
            };
            let (mut slots, mut truth) = (None, None);
            if Instant::now() < deadline {
                truth = self.query(index, async |server: &mut Server| server.truth().await).await.ok();
            }
            if clustered && truth.is_some() {
                slots = self.served(index).await;
            }
            let address = self.members[index].address;
            found.push(TopologyMember { address, truth, role: role.to_owned(), slots });
        }
        found
    }

    async fn served(&mut self, index: usize) -> Option<String> {
        let view = self.shard(index).await.view.ok()?;
        let own = view.nodes.iter().find(|node| node.myself)?;
        (!own.slots.is_empty()).then(|| own.slots.to_string())
    }
}

struct End {
    complete: bool,
    message: String,
}

#[derive(Default)]
struct Progress {
    changes: Vec<String>,
    /// What a server answered to a command that it refused.
    refusal: Option<String>,
}

impl Progress {
    fn note(&mut self, address: SocketAddr, step: &Step, outcome: Result<(), ServerError>) {
        match outcome {
            Ok(()) => self.changes.push(format!("{address}: {step}")),
            Err(error) => self.refusal = Some(format!("{address} refused {step}: {error}")),
        }
    }

    /// The end of the command, or `None` while more is to be done or waited for.
    fn end(&self, verdict: &Verdict, out_of_time: bool) -> Option<End> {
        let message = match verdict {
            Verdict::Complete => {
                return Some(End { complete: true, message: "every server is joined".into() });
            }
            Verdict::Stuck(message) => message.clone(),
            Verdict::Wait(message) if out_of_time => message.clone(),
            Verdict::Do(_) if out_of_time => "the commands have had no effect yet".to_owned(),
            Verdict::Do(_) | Verdict::Wait(_) => return None,
        };
        let refusal = self.refusal.as_ref().map(|refusal| format!("; {refusal}")).unwrap_or_default();
        Some(End { complete: false, message: format!("{message}{refusal}") })
    }
}

fn addresses(command: &TopologyCommand) -> Vec<SocketAddr> {
    match command {
        TopologyCommand::Cluster { members } => members.clone(),
        TopologyCommand::Replication { primary, replicas } => {
            std::iter::once(*primary).chain(replicas.iter().copied()).collect()
        }
    }
}

/// Joins the servers of `command`, waits for them to learn of each other for a
/// bounded time, and reports how they are.
pub async fn join(command: &TopologyCommand, access: &Access) -> TopologyState {
    let members =
        addresses(command).into_iter().map(|address| Member { address, connection: None }).collect();
    let mut servers = Servers { access, members };
    let mut progress = Progress::default();
    let deadline = Instant::now() + PATIENCE;
    let end = loop {
        let out_of_time = Instant::now() >= deadline;
        let end = servers.round(command, &mut progress, out_of_time).await;
        match end {
            Some(end) => break end,
            None => sleep(LOOK_AGAIN).await,
        }
    };
    let members = servers.account(command, deadline + LAST_QUERIES).await;
    TopologyState { complete: end.complete, message: end.message, changes: progress.changes, members }
}
