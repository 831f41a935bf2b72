//! A load thread, or a server's thread, whose CPU others use as well: whether the rules about waiting find
//! them, and what a load loses that they do not find.

use crate::{Property, findings, property, repetition};
use dragstrip_crds::{run::CheckName, workload::ToolSpec};
use dragstrip_results::usage::{ContainerUsage, ServerUsage, ThreadUsage};
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

/// Whose CPU others use: the threads of both do so much work for each request, and their requests come back so
/// much later.
#[derive(Clone, Copy)]
enum Side {
    Client,
    Server,
}

/// Whether the rules report that `side` of such a load waited.
fn found((replies, waited): (u64, u64), side: Side, tool: &ToolSpec) -> bool {
    let seconds = |nanos: u64| nanos as f64 / LENGTH as f64 * SECONDS as f64;
    let mut result = repetition(vec![replies; SECONDS]);
    let (cpu_seconds, waiting_seconds) = (seconds(replies * WORK), seconds(waited));
    let mut usage = ContainerUsage { seconds: SECONDS as f64, ..ContainerUsage::default() };
    let check = match side {
        Side::Client => {
            usage.threads = vec![ThreadUsage { name: "load".to_owned(), cpu_seconds, waiting_seconds }];
            result.pods[0].client = usage;
            CheckName::ClientSaturated
        }
        Side::Server => {
            usage.cpu_pressure_seconds = Some(waiting_seconds);
            result.servers = vec![ServerUsage { usage, ..ServerUsage::default() }];
            CheckName::ServerPressure
        }
    };
    findings(&mut result, tool).iter().any(|name| *name == check.to_string())
}

/// What is claimed of a thread of `side`, `name`, that shares its CPU, where others "find" it.
fn of_thread(side: Side, name: &str, verb: &str, tool: &ToolSpec, cases: usize) -> [Property; 3] {
    let (small, slices) = (2e4..1e5, 1e6..4e6);
    let beside = |share: Range<f64>, pieces: &Range<f64>, random: &mut SmallRng| {
        load(&others(random.random_range(share), pieces, random), random)
    };
    let found = |load, tool| found(load, side, tool);
    let kernel = format!("{name} beside work of the kernel, up to 2 % of its CPU, is not reported as {verb}");
    let process = format!("{name} beside processes with a quarter or more of its CPU is reported as {verb}");
    let lost = format!(
        "A closed loop whose {} is not reported has lost at most 12 % of its throughput to other processes",
        name.split_once(' ').map_or(name, |(_, noun)| noun)
    );
    [
        property(kernel, 0.99, cases, |random| !found(beside(0.002..0.02, &small, random), tool)),
        property(process, 0.95, cases, |random| found(beside(0.25..0.6, &slices, random), tool)),
        property(lost, 0.99, cases, |random| {
            let pieces = if random.random() { &small } else { &slices };
            let disturbed = beside(0.01..0.6, pieces, random);
            let alone = load(&[], random).0 as f64;
            found(disturbed, tool) || disturbed.0 as f64 >= 0.88 * alone
        }),
    ]
}

/// What is claimed of threads that share their CPU.
pub fn properties(cases: usize) -> Vec<Property> {
    let tool = ToolSpec::Loadgen(
        serde_json::from_value(json!({"duration": "3s"}))
            .unwrap_or_else(|_| unreachable!("the manifest is valid")),
    );
    let client = of_thread(Side::Client, "A load thread", "saturated", &tool, cases);
    let server = of_thread(Side::Server, "A server's thread", "one that waits", &tool, cases);
    client.into_iter().chain(server).collect()
}
