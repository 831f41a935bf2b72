//! Makes the connections of a load thread: all of them before the load, many at a
//! time, and those that redirections lead to while it runs.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use crate::configuration::Configuration;
use crate::counts::replies::{Expectation, Flight};
use crate::counts::report::Failure;
use crate::driver::link::{Link, LinkName, LoadError, ThreadContext};
use crate::wire::cluster::Routes;
use crate::wire::connect::{self, Endpoint};
use crate::wire::socket::LoadSocket;
use crate::wire::tls::TlsClient;
use crate::workload::requests::RequestTemplates;

/// Connections of a thread that are being made at a time at most: enough to keep
/// a server busy, and few enough that each is served before its time is up.
const AT_A_TIME: usize = 32;

/// Makes connections.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) configuration: Arc<Configuration>,
    pub(crate) templates: Arc<RequestTemplates>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) security: Option<TlsClient>,
    /// Number of the next connection that a redirection leads to.
    pub(crate) next: Cell<usize>,
}

/// A connection that is ready for load.
pub(crate) type Connected = (LinkName, LoadSocket);

impl Connector {
    /// The connections of these clients, each with one to every shard.
    pub(crate) async fn connect_all(
        &self,
        clients: std::ops::Range<usize>,
    ) -> Result<Vec<Vec<Connected>>, Failure> {
        let shards = self.routes.shards.len();
        let wanted = clients.flat_map(|client| (0..shards).map(move |shard| (client, shard)));
        let mut made = stream::iter(wanted)
            .map(|(client, shard)| self.connect_one(client, shard))
            .buffered(AT_A_TIME)
            .try_chunks(shards.max(1));
        let mut of_clients = Vec::new();
        while let Some(of_client) = made.try_next().await.map_err(|error| error.1)? {
            of_clients.push(of_client);
        }
        Ok(of_clients)
    }

    async fn connect_one(&self, client: usize, shard: usize) -> Result<Connected, Failure> {
        let shards = &self.routes.shards;
        let node = shards.get(shard).and_then(|shard| shard.nodes.get(client % shard.nodes.len().max(1)));
        let endpoint = node.and_then(|&node| self.routes.nodes.get(node)).ok_or_else(|| {
            Failure::of_client("connect", self.configuration.target(), &"the shard has no node")
        })?;
        self.establish(client * shards.len() + shard, endpoint).await
    }

    async fn establish(&self, number: usize, endpoint: &Endpoint) -> Result<Connected, Failure> {
        let established = connect::establish(&self.configuration, self.security.as_ref(), endpoint).await;
        let (stream, address) = established.map_err(|error| error.failure())?;
        let socket = stream.into_socket().map_err(|error| {
            Failure::of_client("take over a connection", self.configuration.target(), &error)
        })?;
        Ok((LinkName { number, address, label: Arc::clone(&endpoint.label) }, socket))
    }

    /// A further connection, to where a redirection leads.
    pub(crate) async fn link(&self, address: &str, context: &Rc<ThreadContext>) -> Result<Link, LoadError> {
        let number = self.next.replace(self.next.get() + 1);
        let failed =
            |problem: String| LoadError::Redirect { connection: number, address: address.into(), problem };
        let bad_address = || failed(format!("{address:?} is no address"));
        let (host, port) = address.rsplit_once(':').ok_or_else(bad_address)?;
        let port = port.parse().map_err(|_| bad_address())?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let limit = self.configuration.connect_timeout;
        let endpoint =
            connect::resolve(host, port, limit).await.map_err(|error| failed(error.to_string()))?;
        let (name, socket) =
            self.establish(number, &endpoint).await.map_err(|failure| failed(failure.message))?;
        let expected =
            Expectation::new(Flight::Routed(std::collections::VecDeque::new()), self.templates.replies());
        Ok(Link::new(name, socket, expected, Rc::clone(context)))
    }
}
