//! Checks of the network between clients and server. Pure.

use super::{Evidence, Found, unless};

/// The cloud held back more than `limit` packets of a pod's machine.
// The limit is a number of packets.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn allowance_exceeded(evidence: &Evidence, limit: f64) -> Found {
    let usages = evidence.usages();
    let counters = usages.filter_map(|(name, usage)| Some((name, usage.network.as_ref()?))).flat_map(
        |(name, network)| {
            network.allowance_exceeded.iter().map(move |(counter, packets)| (name, counter, *packets))
        },
    );
    let Some((name, counter, packets)) = counters.max_by_key(|(_, _, packets)| *packets) else {
        return Found::Pointless;
    };
    unless(packets <= limit as u64, || {
        format!("{counter} of {name} counted {packets} packets: the machine's network was the limit")
    })
}
