//! Whose limit a throughput was, shown by one more point with twice the connections. In a closed loop
//! throughput is connections divided by latency (Little's law): a server with room does more for more
//! connections, and one at its limit does not. Pure.

use super::limits;
use dragstrip_crds::{measured::Spread, run::Limiter};

/// What twice the connections brought.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    /// By which share throughput is more than the mean of the repetitions.
    pub share: f64,
    /// The gain that noise may explain.
    pub explained_by_noise: f64,
}

impl Gain {
    /// The gain of a point with this throughput over `repetitions`.
    pub fn of(repetitions: &Spread, operations_per_second: f64) -> Self {
        let noise = repetitions.coefficient_of_variation.unwrap_or_default();
        Self {
            share: operations_per_second / repetitions.mean - 1.0,
            explained_by_noise: (limits::GAIN_DEVIATIONS * noise).max(limits::GAIN),
        }
    }

    /// Whether the server had room for more.
    pub fn shows_room(self) -> bool {
        self.share > self.explained_by_noise
    }

    /// What limited the throughput that had the limit `found`. The clients' own limit says nothing of
    /// the server: no gain makes a Client a Server.
    pub fn limiter(self, found: Limiter, clients_saturated: bool) -> Limiter {
        match (found, self.shows_room()) {
            (Limiter::Server | Limiter::NothingFound | Limiter::Unknown, true) => Limiter::Connections,
            (Limiter::Unknown, false) if clients_saturated => Limiter::Client,
            (Limiter::Unknown, false) => Limiter::Server,
            (found, _) => found,
        }
    }

    /// What follows for a throughput with this `limiter`, in one sentence.
    pub fn sentence(self, limiter: Limiter, connections: u64) -> String {
        let conclusion = match (limiter, self.shows_room()) {
            (Limiter::Connections, _) => {
                "the server had room, and the number of connections was the limit (Little's law)"
            }
            (Limiter::Client | Limiter::Both, _) => {
                "the clients were at their limit, so it shows nothing about the server"
            }
            (_, true) => "the server had room",
            (Limiter::Server, false) => "the server was at its limit",
            (_, false) => "the number of connections was not the limit",
        };
        format!(
            "twice the connections ({connections} per thread) changed throughput by {:+.1} %, and noise may explain {:.1} %: {conclusion}",
            self.share * 100.0,
            self.explained_by_noise * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::statistics::spread;

    fn gain(repetitions: &[f64], point: f64) -> Gain {
        Gain::of(&spread(repetitions).unwrap(), point)
    }

    #[test]
    fn a_gain_must_exceed_a_twentieth_and_three_deviations_of_the_repetitions() {
        assert!(!gain(&[100.0], 104.9).shows_room(), "less than 5 % may be noise");
        assert!(gain(&[100.0], 106.0).shows_room(), "one repetition has no noise that is known");
        assert!(!gain(&[90.0, 100.0, 110.0], 129.0).shows_room(), "29 % is within 3 x 10 %");
        assert!(gain(&[90.0, 100.0, 110.0], 131.0).shows_room());
    }

    #[test]
    fn the_point_resolves_what_was_unknown_and_never_makes_a_client_a_server() {
        use Limiter::{Both, Client, Connections, Network, NothingFound, Server, Unknown};
        let (room, full) = (gain(&[100.0], 180.0), gain(&[100.0], 101.0));
        for (found, saturated, with_room, without) in [
            (Unknown, false, Connections, Server),
            (Unknown, true, Connections, Client),
            (NothingFound, false, Connections, NothingFound),
            (Server, false, Connections, Server),
            (Client, true, Client, Client),
            (Client, false, Client, Client),
            (Both, true, Both, Both),
            (Network, false, Network, Network),
        ] {
            assert_eq!(room.limiter(found, saturated), with_room, "{found:?} with a gain");
            assert_eq!(full.limiter(found, saturated), without, "{found:?} without a gain");
        }
    }

    #[test]
    fn the_sentence_has_the_gain_and_its_limit() {
        assert_eq!(
            gain(&[100.0], 180.0).sentence(Limiter::Connections, 2),
            "twice the connections (2 per thread) changed throughput by +80.0 %, and noise may explain 5.0 %: \
             the server had room, and the number of connections was the limit (Little's law)"
        );
        let flat = gain(&[100.0], 99.0).sentence(Limiter::Server, 400);
        assert!(flat.contains("by -1.0 %") && flat.ends_with("the server was at its limit"), "{flat}");
    }
}
