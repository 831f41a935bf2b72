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

/// The replies of a closed loop of one thread, and how long it waited, while others have its CPU at times. It
/// never takes the CPU from them: no scheduler is worse.
fn load(taken: &[Range<u64>], random: &mut SmallRng) -> (u64, u64) {
    // Times are positive and far below 2^63.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let answer = |random: &mut SmallRng| (Distribution::<f64>::sample(&Exp1, random) * ANSWER) as u64;
    let mut answers: BinaryHeap<_> = (0..CONNECTIONS).map(|_| Reverse(answer(random))).collect();
    let (mut free, mut replies, mut waited, mut pieces) = (0, 0, 0, taken.iter().peekable());
    while let Some(Reverse(arrived)) = answers.pop().filter(|arrived| arrived.0 < LENGTH) {
        let ready = free.max(arrived);
        while pieces.next_if(|piece| piece.end <= ready).is_some() {}
        let begin = pieces.peek().filter(|piece| piece.start <= ready).map_or(ready, |piece| piece.end);
        waited += begin - ready;
        replies += 1;
        free = begin + WORK;
        answers.push(Reverse(free + answer(random)));
    }
    (replies, waited)
}

/// Whether the rules call the client of such a load saturated.
fn found((replies, waited): (u64, u64), tool: &ToolSpec) -> bool {
    let seconds = |nanos: u64| nanos as f64 / LENGTH as f64 * SECONDS as f64;
    let mut result = repetition(vec![replies; SECONDS]);
    let (cpu_seconds, waiting_seconds) = (seconds(replies * WORK), seconds(waited));
    result.pods[0].client.seconds = SECONDS as f64;
    result.pods[0].client.threads =
        vec![ThreadUsage { name: "load".to_owned(), cpu_seconds, waiting_seconds }];
    findings(&mut result, tool).iter().any(|name| name == "ClientSaturated")
}

/// What is claimed of load threads that share their CPU.
pub fn properties(cases: usize) -> Vec<Property> {
    let tool = ToolSpec::Loadgen(
        serde_json::from_value(json!({"duration": "3s"}))
            .unwrap_or_else(|_| unreachable!("the manifest is valid")),
    );
    let (small, slices) = (2e4..1e5, 1e6..4e6);
    let beside = |share: Range<f64>, pieces: &Range<f64>, random: &mut SmallRng| {
        load(&others(random.random_range(share), pieces, random), random)
    };
    let kernel =
        "A load thread beside work of the kernel, up to 2 % of its CPU, is not reported as saturated";
    let process = "A load thread beside processes with a quarter or more of its CPU is reported as saturated";
    let lost =
        "A closed loop that is not reported has lost at most 12 % of its throughput to other processes";
    vec![
        property(kernel, 0.99, cases, |random| !found(beside(0.002..0.02, &small, random), &tool)),
        property(process, 0.95, cases, |random| found(beside(0.25..0.6, &slices, random), &tool)),
        property(lost, 0.99, cases, |random| {
            let pieces = if random.random() { &small } else { &slices };
            let disturbed = beside(0.01..0.6, pieces, random);
            let alone = load(&[], random).0 as f64;
            found(disturbed, &tool) || disturbed.0 as f64 >= 0.88 * alone
        }),
    ]
}
