//! How full the network links of the run's nodes were. Pure.

use super::evidence::{Evidence, OnNode, percent};
use crate::measured::usage::NetworkUsage;
use dragstrip_crds::units::{thousands, whole};

/// The direction of a node's link that was fullest.
pub(super) struct Link {
    /// The share of its rate, from 0 to 1 and above: clouds let a link exceed its sustained rate for a while.
    pub share: f64,
    pub evidence: String,
}

/// The fullest link whose rate is known. What crosses it is known of pods that share no node with the
/// other side; of several pods on a node the busiest counts, since pods in the node's network all count
/// the same bytes.
pub(super) fn fullest(evidence: &Evidence) -> Option<Link> {
    let links = evidence.on_nodes().filter_map(|OnNode { node, usage, .. }| {
        let record = evidence.result.nodes.iter().find(|record| record.name == node)?;
        let bits = record.network_megabits_per_second.filter(|rate| *rate > 0)? as f64 * 1e6;
        let crosses = record.serves != record.loads;
        let network = usage.network.as_ref().filter(|_| crosses)?;
        Some(of(node, network, bits, usage.seconds))
    });
    links.max_by(|one, other| one.share.total_cmp(&other.share))
}

fn of(node: &str, network: &NetworkUsage, bits: f64, seconds: f64) -> Link {
    let directions = [("sent", network.sent_bytes), ("received", network.received_bytes)];
    let (verb, bytes) = directions.into_iter().max_by_key(|(_, bytes)| *bytes).unwrap_or(directions[0]);
    let rate = bytes as f64 * 8.0 / seconds;
    let segments = thousands(whole(network.sent_segments as f64 / seconds));
    let share = rate / bits;
    let evidence = format!(
        "{node} {verb} {:.2} Gbit/s, {} of its link's {} Gbit/s, and sent {segments} TCP segments per second",
        rate / 1e9,
        percent(share),
        bits / 1e9
    );
    Link { share, evidence }
}
