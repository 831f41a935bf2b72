//! Makes the connections of a load thread: all of them before the load, many at a
//! time, and those that redirections lead to while it runs.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use crate::configuration::Configuration;
use crate::counts::replies::{Expectation, Flight};
use crate::counts::report::Failure;
use crate::driver::link::{Link, LinkName, ThreadContext};
use crate::wire::cluster::Routes;
use crate::wire::connect::{self, ConnectError, Endpoint};
use crate::wire::socket::LoadSocket;
use crate::wire::tls::TlsClient;
use crate::workload::requests::RequestTemplates;

/// Connections of a thread that are being made at a time at most: enough to keep
/// a server busy, and few enough that each is served before its time is up.
const AT_A_TIME: usize = 32;

/// What all load threads share.
pub(crate) struct Load {
    pub(crate) configuration: Arc<Configuration>,
    pub(crate) templates: Arc<RequestTemplates>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) tls: Option<TlsClient>,
}

pub(crate) struct Connector {
    load: Arc<Load>,
    /// Number of the next connection that a redirection leads to.
    next: Cell<usize>,
}

/// A connection that is ready for load.
pub(crate) type Connected = (LinkName, LoadSocket);

impl Connector {
    pub(crate) fn new(load: Arc<Load>) -> Self {
        let next = Cell::new(load.configuration.connections() * load.routes.shards.len());
        Self { load, next }
    }

    /// The connections of these clients, each with one to every shard.
    pub(crate) async fn connect_all(&self, clients: Range<usize>) -> Result<Vec<Vec<Connected>>, Failure> {
        let shards = &self.load.routes.shards;
        let wanted = clients.flat_map(|client| {
            shards.iter().enumerate().filter_map(move |(place, shard)| {
                let node = shard.nodes.get(client % shard.nodes.len().max(1))?;
                Some((client * shards.len() + place, node))
            })
        });
        let made = stream::iter(wanted)
            .map(|(number, node)| self.establish(number, node))
            .buffered(AT_A_TIME)
            .try_chunks(shards.len().max(1));
        made.try_collect().await.map_err(|error| error.1.failure())
    }

    async fn establish(&self, number: usize, endpoint: &Endpoint) -> Result<Connected, ConnectError> {
        let established =
            connect::establish(&self.load.configuration, self.load.tls.as_ref(), endpoint, None).await?;
        let label = Arc::clone(&endpoint.label);
        Ok((LinkName { number, address: established.address, label }, established.socket))
    }

    /// A further connection, to where a redirection leads.
    pub(crate) async fn link(
        &self,
        address: &str,
        context: &Rc<ThreadContext>,
    ) -> Result<Link, ConnectError> {
        let number = self.next.replace(self.next.get() + 1);
        let endpoint = connect::resolve(address, self.load.configuration.connect_timeout).await?;
        let (name, socket) = self.establish(number, &endpoint).await?;
        let expected = Expectation::new(Flight::Routed(VecDeque::new()), self.load.templates.replies());
        Ok(Link::new(name, socket, expected, Rc::clone(context)))
    }
}
