//! The page of metrics, made about once a second however many scrapes come: each is work
//! for the measured server. Touches the network and /proc.

use super::{
    finder::Servers,
    neighbours::Neighbours,
    page::{self, Snapshot},
    probes::Probes,
};
use crate::server::{connection::Server, truth::detect_engine};
use dragstrip_crds::Engine;
use futures::future::join_all;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// A little less than the second between two scrapes, so that no Prometheus gets a page twice.
const PAGE_STANDS: Duration = Duration::from_millis(900);
/// How long the servers may take to answer; until then all scrapes wait for the same answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// The last page, and what the next one builds on.
pub struct Scraper {
    cache: Option<(Instant, String)>,
    probes: Probes,
    /// The engine that each server last reported: a silent server still has it.
    engines: Vec<Option<Engine>>,
}

impl Scraper {
    pub fn of(servers: Servers) -> Self {
        Self { cache: None, engines: vec![None; servers.ports.len()], probes: Probes::of(servers) }
    }

    pub async fn page(&mut self, neighbours: &Neighbours) -> Result<String, prometheus::Error> {
        if let Some((_, page)) = self.cache.as_ref().filter(|(made, _)| made.elapsed() < PAGE_STANDS) {
            return Ok(page.clone());
        }
        let begun = Instant::now();
        let query = async |server: &mut Server| server.info(&["INFO"]).await;
        let answers = neighbours.servers.iter().map(|neighbour| async {
            // A server that does not answer is a value too.
            timeout(ANSWER_WITHIN, neighbours.query(neighbour, query)).await.ok()?.ok()
        });
        let answers = join_all(answers).await;
        self.probes.find_missing();
        let sample = self.probes.sample();
        let several = neighbours.servers.len() > 1;
        let seen = neighbours.servers.iter().zip(&mut self.engines).zip(answers).zip(sample.servers);
        let servers: Vec<_> = seen
            .map(|(((neighbour, engine), info), used)| {
                *engine = info.as_ref().and_then(detect_engine).or(*engine);
                let up = if neighbours.speaks_resp { info.is_some() } else { used.is_some() };
                let port = several.then(|| neighbour.address.port());
                Snapshot { port, engine: *engine, up, info, used }
            })
            .collect();
        let page = page::page(&servers, sample.around.network.as_ref(), begun.elapsed())?;
        self.cache = Some((Instant::now(), page.clone()));
        Ok(page)
    }
}
