//! Streams of random numbers that are independent of each other: one for each
//! purpose of each connection of each client process, all from one seed.

use rand::rngs::{SmallRng, StdRng};
use rand::{Rng as _, SeedableRng as _};

/// What random numbers are drawn for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Purpose {
    /// Keys, values and lifetimes of the requests of a connection, or of a task.
    Requests,
    /// Intended times of an open loop.
    Arrivals,
    /// Random bytes that all values of a process share.
    Values,
}

/// A client process's place among all that share one declared load.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Crowd {
    /// Number of this process, from 0.
    pub index: u32,
    /// Processes that share the load, at least 1.
    pub processes: u32,
}

impl Crowd {
    /// A process that has the load to itself.
    pub const ALONE: Self = Self { index: 0, processes: 1 };
}

/// The stream of the connection, or task, of this `number` within its process.
///
/// All four values together are the key of a cipher whose output seeds the
/// stream: no two of them can give the same one by arithmetic.
pub fn stream(seed: u64, crowd: Crowd, purpose: Purpose, number: u64) -> SmallRng {
    let mut key = [0; 32];
    let words = [seed, u64::from(crowd.index), purpose as u64, number];
    for (place, word) in key.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let mut seeding = <SmallRng as rand::SeedableRng>::Seed::default();
    StdRng::from_seed(key).fill_bytes(&mut seeding);
    SmallRng::from_seed(seeding)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use proptest::prelude::*;

    fn drawn(mut random: SmallRng) -> [u64; 4] {
        std::array::from_fn(|_| random.next_u64())
    }

    proptest! {
        #[test]
        fn no_two_connections_of_any_threads_and_pods_draw_the_same(
            seed: u64, pods in 2u32..5, threads in 1u64..4, connections in 1u64..9
        ) {
            let mut seen = HashSet::new();
            for index in 0..pods {
                let crowd = Crowd { index, processes: pods };
                for thread in 0..threads {
                    for connection in 0..connections {
                        let number = thread * connections + connection;
                        for purpose in [Purpose::Requests, Purpose::Arrivals] {
                            let stream = drawn(stream(seed, crowd, purpose, number));
                            for value in stream {
                                let place = (index, thread, connection, purpose);
                                prop_assert!(seen.insert(value), "{place:?} draws what another one drew");
                            }
                        }
                    }
                }
            }
        }

        #[test]
        fn equal_places_draw_the_same_again(seed: u64, index: u32, number: u64) {
            let crowd = Crowd { index, processes: u32::MAX };
            let again = || drawn(stream(seed, crowd, Purpose::Requests, number));
            prop_assert_eq!(again(), again());
        }
    }
}
