//! Follows redirections: sends a request to the node that has its key, and
//! remembers where slots have gone.
//!
//! A connection follows its own redirections over further connections, made
//! when first needed, before it goes on with its load. The latency of such a
//! request counts from its first sending.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use tokio::time::timeout;

use crate::configuration::Configuration;
use crate::counts::replies::Redirected;
use crate::driver::link::{Link, LoadError};
use crate::wire::cluster::Routes;
use crate::wire::connect;
use crate::wire::exchange::{Answers, Said, encode_command, exchange};
use crate::wire::redirect::Direction;
use crate::wire::slots::SlotMap;
use crate::wire::stream::LoadStream;
use crate::wire::tls::TlsClient;

/// Redirections of one request that are followed at most.
const MAXIMUM_HOPS: u32 = 16;

/// What all followers of a thread have in common.
#[derive(Clone, Debug)]
pub(crate) struct FollowerParts {
    pub(crate) configuration: Arc<Configuration>,
    pub(crate) security: Option<TlsClient>,
    pub(crate) routes: Arc<Routes>,
    pub(crate) slots: Rc<SlotMap>,
    /// Whether slots that moved are drawn by the connections of their new shard.
    pub(crate) learns: bool,
}

/// Follows the redirections of one connection.
#[derive(Debug)]
pub(crate) struct Follower {
    parts: FollowerParts,
    others: BTreeMap<String, LoadStream>,
}

impl Follower {
    pub(crate) fn new(parts: FollowerParts) -> Self {
        Self { parts, others: BTreeMap::new() }
    }

    /// Sends what `link` was told to send elsewhere, and records the answers.
    pub(crate) async fn follow(&mut self, link: &mut Link) -> Result<(), LoadError> {
        let Some(copies) = &mut link.copies else { return Ok(()) };
        for redirected in std::mem::take(&mut copies.redirected) {
            self.resend(link, redirected).await?;
        }
        Ok(())
    }

    async fn resend(&mut self, link: &mut Link, mut request: Redirected) -> Result<(), LoadError> {
        for _ in 0..MAXIMUM_HOPS {
            let address = self.address_of(link, &request.direction);
            if !request.direction.ask {
                self.learn(request.direction.slot, &address);
            }
            let answers = self.ask(link, &address, &request).await?;
            let arrived = Instant::now();
            let node = link.context.recorder.borrow_mut().node_number(&address);
            let Some(next) = redirection(&answers) else {
                link.record_elsewhere(&request, &answers, node, arrived);
                if let Some(copies) = &mut link.copies {
                    copies.recycle(request.request);
                }
                return Ok(());
            };
            let mut recorder = link.context.recorder.borrow_mut();
            recorder.note_redirection(request.operation, node, request.origin.measured, next.ask);
            request.direction = next;
        }
        Err(Self::failed(link, format!("{MAXIMUM_HOPS} redirections in a row")))
    }

    /// An address without a host has that of the node that gave it.
    fn address_of(&self, link: &Link, direction: &Direction) -> String {
        match direction.address.strip_prefix(':') {
            None => direction.address.clone(),
            Some(port) => {
                let host = self.parts.routes.nodes.get(link.node).map_or("", |node| node.host.as_str());
                let port = port.parse().unwrap_or_default();
                crate::configuration::host_and_port(host, port)
            }
        }
    }

    /// A slot has moved. Without a connection to its new shard, requests for it
    /// go on to be redirected.
    fn learn(&self, slot: usize, address: &str) {
        let shard = self.parts.routes.shards.iter().position(|shard| shard.primary == address);
        if let Some(shard) = shard.filter(|_| self.parts.learns) {
            self.parts.slots.assign(slot, shard);
        }
    }

    async fn ask(&mut self, link: &Link, address: &str, request: &Redirected) -> Result<Answers, LoadError> {
        let limit = self.parts.configuration.response_timeout;
        let replies = usize::try_from(link.expected.shape(request.operation).replies).unwrap_or(usize::MAX);
        let mut stream = match self.others.remove(address) {
            Some(stream) => stream,
            None => self.connect(link, address).await?,
        };
        let conversation = async {
            if request.direction.ask {
                exchange(&mut stream, &encode_command(&["ASKING"]), &[], 1, None).await?;
                link.context.recorder.borrow_mut().asking += 1;
            }
            exchange(&mut stream, &request.request, link.context.block(), replies, None).await
        };
        let answers = match timeout(limit, conversation).await {
            Err(_) => {
                let (connection, address) = (link.name.within_run, address.into());
                return Err(LoadError::Silent { connection, address, seconds: limit.as_secs_f64() });
            }
            Ok(Err(error)) => return Err(Self::failed(link, format!("{address}: {error}"))),
            Ok(Ok(answers)) => answers,
        };
        self.others.insert(address.to_owned(), stream);
        Ok(answers)
    }

    async fn connect(&self, link: &Link, address: &str) -> Result<LoadStream, LoadError> {
        let configuration = &self.parts.configuration;
        let bad_address = || Self::failed(link, format!("{address:?} is no address"));
        let (host, port) = address.rsplit_once(':').ok_or_else(bad_address)?;
        let port = port.parse().map_err(|_| bad_address())?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let failed = |error: connect::ConnectError| Self::failed(link, error.to_string());
        let endpoint = connect::resolve(host, port, configuration.connect_timeout).await.map_err(failed)?;
        let security = self.parts.security.as_ref();
        let (stream, _) = connect::establish(configuration, security, &endpoint).await.map_err(failed)?;
        Ok(stream)
    }

    fn failed(link: &Link, problem: String) -> LoadError {
        let (connection, address) = (link.name.within_run, Arc::clone(&link.name.address));
        LoadError::Redirect { connection, address, problem }
    }
}

/// Where to go next, if any of the answers says so.
fn redirection(answers: &Answers) -> Option<Direction> {
    answers.said.iter().find_map(|said| match said {
        Said::Error(message) => Direction::read(message),
        Said::Reply(_) => None,
    })
}
