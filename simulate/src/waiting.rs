//! A load thread whose CPU others use as well: whether the rule about waiting finds them, and what a load
//! loses that it does not find.

use crate::{Property, findings, property, repetition};
use dragstrip_crds::workload::ToolSpec;
use dragstrip_results::usage::ThreadUsage;
use rand::{RngExt as _, rngs::SmallRng};
use rand_distr::{Distribution, Exp1};
use serde_json::json;
use std::{cmp::Reverse, collections::BinaryHeap, ops::Range};

/// Simulated time of a load, in nanoseconds.
const LENGTH: u64 = 200_000_000;
/// CPU time of one request and its reply.
const WORK: u64 = 5_000;
/// Mean time of the server and the network.
const ANSWER: f64 = 500_000.0;
const CONNECTIONS: usize = 20;
/// Seconds of the repetition that is judged.
const SECONDS: usize = 5;

/// When others have the CPU: for this `share` of the time, in pieces of these lengths in nanoseconds.
fn others(share: f64, pieces: &Range<f64>, random: &mut SmallRng) -> Vec<Range<u64>> {
    let (mut taken, mut at) = (Vec::new(), 0.0);
    while at < LENGTH as f64 {
        let piece = random.random_range(pieces.clone());
        let pause: f64 = Exp1.sample(random);
        let begin = at + pause * piece * (1.0 - share) / share;
        at = begin + piece;
        // Times are positive and far below 2^63.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        taken.push(begin as u64..at as u64);
    }
    taken
}

/// What a load thread did.
struct Done {
    replies: u64,
    waited: u64,
}

/// A closed loop of one thread while others have its CPU at times. The thread never takes the CPU from
/// them: no scheduler is worse.
fn load(taken: &[Range<u64>], random: &mut SmallRng) -> Done {
    let answer = |random: &mut SmallRng| {
        let length: f64 = Exp1.sample(random);
        // As above.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let length = (length * ANSWER) as u64;
        length
    };
    let mut answers: BinaryHeap<_> = (0..CONNECTIONS).map(|_| Reverse(answer(random))).collect();
    let (mut free, mut done, mut next) = (0, Done { replies: 0, waited: 0 }, 0);
    while let Some(Reverse(arrived)) = answers.pop() {
        let ready = arrived.max(free);
        if ready >= LENGTH {
            break;
        }
        while taken.get(next).is_some_and(|piece| piece.end <= ready) {
            next += 1;
        }
        let begin = taken.get(next).filter(|piece| piece.start <= ready).map_or(ready, |piece| piece.end);
        done.waited += begin - ready;
        done.replies += 1;
        free = begin + WORK;
        answers.push(Reverse(free + answer(random)));
    }
    done
}

/// Whether the rules call the client of such a load saturated.
fn found(load: &Done, tool: &ToolSpec) -> bool {
    let seconds = |nanos: u64| nanos as f64 / LENGTH as f64 * SECONDS as f64;
    let mut result = repetition(vec![load.replies; SECONDS]);
    let client = &mut result.pods[0].client;
    client.seconds = SECONDS as f64;
    client.threads = vec![ThreadUsage {
        name: "load".to_owned(),
        cpu_seconds: seconds(load.replies * WORK),
        waiting_seconds: seconds(load.waited),
    }];
    findings(&mut result, tool).iter().any(|name| name == "ClientSaturated")
}

/// What is claimed of load threads that share their CPU.
pub fn properties(cases: usize) -> Vec<Property> {
    let tool = ToolSpec::Loadgen(
        serde_json::from_value(json!({"duration": "3s"}))
            .unwrap_or_else(|_| unreachable!("the manifest is valid")),
    );
    let (small, slices) = (2e4..1e5, 1e6..4e6);
    vec![
        property(
            "A load thread beside work of the kernel, up to 2 % of its CPU, is not reported as saturated",
            0.99,
            cases,
            |random| {
                let taken = others(random.random_range(0.002..0.02), &small, random);
                !found(&load(&taken, random), &tool)
            },
        ),
        property(
            "A load thread beside processes with a quarter or more of its CPU is reported as saturated",
            0.95,
            cases,
            |random| {
                let taken = others(random.random_range(0.25..0.6), &slices, random);
                found(&load(&taken, random), &tool)
            },
        ),
        property(
            "A closed loop that is not reported has lost at most 12 % of its throughput to other processes",
            0.99,
            cases,
            |random| {
                let pieces = if random.random() { &small } else { &slices };
                let taken = others(random.random_range(0.01..0.6), pieces, random);
                let disturbed = load(&taken, random);
                let alone = load(&[], random).replies as f64;
                found(&disturbed, &tool) || disturbed.replies as f64 >= 0.88 * alone
            },
        ),
    ]
}
