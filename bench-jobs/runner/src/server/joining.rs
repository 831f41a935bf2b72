//! Joins servers over RESP: shards to a cluster, replicas to a primary. The pure
//! modules decide what to do from what the servers report at that moment, so that any
//! command may be repeated and any attempt may be cut short. Touches the network.

pub mod cluster;
pub mod replication;
pub mod step;

use crate::server::{
    access::Access,
    connection::{ANSWER_TIMEOUT, Server, ServerError},
    slots,
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
/// Time between two queries of servers that are learning.
const PAUSE: Duration = Duration::from_millis(200);

/// The servers of a command, with a connection to each that answers.
struct Servers<'a> {
    access: &'a Access,
    members: Vec<(SocketAddr, Option<Server>)>,
}

impl Servers<'_> {
    /// Queries a server over its open connection. A failed answer closes it, so
    /// that the next query finds a restarted server.
    async fn query<T>(
        &mut self,
        index: usize,
        query: impl AsyncFnOnce(&mut Server) -> Result<T, ServerError>,
    ) -> Result<T, ServerError> {
        let (address, connection) = &mut self.members[index];
        let mut server = match connection.take() {
            Some(server) => server,
            None => Server::connect(*address, self.access, ANSWER_TIMEOUT).await?,
        };
        let answer = query(&mut server).await;
        if answer.is_ok() {
            *connection = Some(server);
        }
        answer
    }

    /// The view of every server, one after the other, up to the first that is silent.
    async fn views<V>(
        &mut self,
        view: impl AsyncFn(&mut Server) -> Result<V, ServerError>,
    ) -> Result<Vec<(SocketAddr, V)>, Verdict> {
        let mut views = Vec::with_capacity(self.members.len());
        for index in 0..self.members.len() {
            let address = self.members[index].0;
            let answer = self.query(index, async |server: &mut Server| view(server).await).await;
            let silent = |error| Verdict::Stuck(format!("{address} does not answer: {error}"));
            views.push((address, answer.map_err(silent)?));
        }
        Ok(views)
    }

    async fn decide(&mut self, command: &TopologyCommand) -> Result<Verdict, Verdict> {
        Ok(match command {
            TopologyCommand::Cluster { members, .. } => {
                cluster::decide(&self.views(cluster_view).await?, members.len())
            }
            TopologyCommand::Replication { .. } => replication::decide(&self.views(replication_view).await?),
        })
    }

    async fn carry_out(&mut self, step: &Step) -> Result<(), ServerError> {
        // A restarted replica has lost its primary's password together with its primary.
        let replicates = step.words.first().is_some_and(|word| word == replication::REPLICAOF);
        let password = self.access.password.clone().filter(|_| replicates);
        let words: Vec<&str> = step.words.iter().map(String::as_str).collect();
        self.query(step.server, async |server: &mut Server| {
            if let Some(password) = &password {
                server.command::<()>(&["CONFIG", "SET", "masterauth", password]).await?;
            }
            server.command(&words).await
        })
        .await
    }

    /// Every server as it is now, if it answers before `deadline`.
    async fn report(&mut self, shards: Option<usize>, deadline: Instant) -> Vec<TopologyMember> {
        let mut found = Vec::with_capacity(self.members.len());
        for index in 0..self.members.len() {
            let role = match shards {
                Some(shards) if index < shards => "shard",
                None if index == 0 => "primary",
                _ => "replica",
            };
            let (mut slots, mut truth) = (None, None);
            if Instant::now() < deadline {
                truth = self.query(index, async |server: &mut Server| server.truth().await).await.ok();
            }
            if shards.is_some() && truth.is_some() {
                slots = self.query(index, served).await.ok().flatten();
            }
            let address = self.members[index].0;
            found.push(TopologyMember { address, truth, role: role.to_owned(), slots });
        }
        found
    }
}

async fn cluster_view(server: &mut Server) -> Result<cluster::View, ServerError> {
    let nodes = server.cluster_nodes().await?;
    let state_ok = server.info(&["CLUSTER", "INFO"]).await?.text("cluster_state") == Some("ok");
    let synchronised = replication_view(server).await?.synchronised;
    let listed = server.listed_nodes().await?;
    Ok(cluster::View { nodes, state_ok, synchronised, listed, keys: server.key_count().await? })
}

async fn replication_view(server: &mut Server) -> Result<replication::View, ServerError> {
    Ok(replication::View::read(&server.info(&["INFO", "ALL"]).await?))
}

/// The slots that a server of a cluster serves; `None` for none.
async fn served(server: &mut Server) -> Result<Option<String>, ServerError> {
    let nodes = server.cluster_nodes().await?;
    let own = nodes.iter().find(|node| node.myself).map(|node| slots::text(&node.slots));
    Ok(own.filter(|slots| !slots.is_empty()))
}

/// Joins the servers of `command`, waits for them to learn of each other for a
/// bounded time, and reports how they are.
pub async fn join(command: &TopologyCommand, access: &Access) -> TopologyState {
    let (addresses, shards) = match command {
        TopologyCommand::Cluster { members, replicas } => {
            ([&members[..], replicas].concat(), Some(members.len()))
        }
        TopologyCommand::Replication { primary, replicas } => ([&[*primary][..], replicas].concat(), None),
    };
    let members = addresses.into_iter().map(|address| (address, None)).collect();
    let mut servers = Servers { access, members };
    let (mut changes, mut refusal) = (Vec::new(), String::new());
    let deadline = Instant::now() + PATIENCE;
    let (complete, message) = loop {
        let out_of_time = Instant::now() >= deadline;
        match servers.decide(command).await.unwrap_or_else(|silent| silent) {
            Verdict::Complete => break (true, "every server is joined".to_owned()),
            Verdict::Stuck(message) => break (false, message + &refusal),
            Verdict::Wait(message) if out_of_time => break (false, message + &refusal),
            Verdict::Do(_) if out_of_time => {
                break (false, format!("the commands have had no effect yet{refusal}"));
            }
            Verdict::Wait(_) => {}
            Verdict::Do(steps) => {
                for step in steps {
                    let address = servers.members[step.server].0;
                    match servers.carry_out(&step).await {
                        Ok(()) => changes.push(format!("{address}: {step}")),
                        Err(error) => refusal = format!("; {address} refused {step}: {error}"),
                    }
                }
            }
        }
        sleep(PAUSE).await;
    };
    let members = servers.report(shards, deadline + LAST_QUERIES).await;
    TopologyState { complete, message, changes, members }
}
