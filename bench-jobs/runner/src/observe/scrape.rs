//! The page of metrics, made about once a second however many ask for it: each is work
//! on the measured server. Touches the network and /proc.

use super::{
    Observer,
    page::{self, Seen},
    probes::{Probes, Servers},
};
use crate::server::{connection::Server, truth::detect_engine};
use dragstrip_crds::Engine;
use futures::future::join_all;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// How long a page stands for whoever asks: a little less than the second after which
/// each Prometheus asks again, so that none is told the same twice.
const PAGE_STANDS: Duration = Duration::from_millis(900);
/// How long the servers may take to answer; until then everybody waits for the same answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// What is kept between pages.
pub struct Scraped {
    page: Option<(Instant, String)>,
    probes: Probes,
    /// What each server was when it last said so: a silent one is still that.
    engines: Vec<Option<Engine>>,
}

impl Scraped {
    /// Nothing yet of these servers.
    pub fn of(servers: Servers) -> Self {
        Self { page: None, engines: vec![None; servers.ports.len()], probes: Probes::of(servers) }
    }
}

impl Observer {
    /// The page. One is made at a time, and who asks meanwhile gets that one.
    pub(super) async fn metrics_page(&self) -> Result<String, prometheus::Error> {
        let mut scraped = self.scraped.lock().await;
        if let Some((_, page)) = scraped.page.as_ref().filter(|(made, _)| made.elapsed() < PAGE_STANDS) {
            return Ok(page.clone());
        }
        let begun = Instant::now();
        let question = async |server: &mut Server| server.brief_info().await;
        let answers = self.neighbours.iter().map(|neighbour| async {
            // A server that does not answer is a value too.
            timeout(ANSWER_WITHIN, self.ask(neighbour, question)).await.ok()?.ok()
        });
        let answers = join_all(answers).await;
        scraped.probes.find_missing();
        let sample = scraped.probes.sample();
        let several = self.neighbours.len() > 1;
        let mut servers = Vec::with_capacity(answers.len());
        for (place, (info, used)) in answers.into_iter().zip(sample.servers).enumerate() {
            let known = scraped.engines.get_mut(place);
            let engine = known.and_then(|known| {
                *known = info.as_ref().and_then(detect_engine).or(*known);
                *known
            });
            let port = self.neighbours.get(place).filter(|_| several).map(|known| known.address.port());
            let up = if self.speaks_resp { info.is_some() } else { used.is_some() };
            servers.push(Seen { port, engine, up, info, used });
        }
        let page = page::page(&servers, sample.around.network.as_ref(), begun.elapsed())?;
        scraped.page = Some((Instant::now(), page.clone()));
        Ok(page)
    }
}
