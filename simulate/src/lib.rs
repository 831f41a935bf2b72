//! How often the rules that decide cry wolf, and how often they miss: seeded simulations of servers
//! and loads, judged by the same functions as real measurements. Touches nothing: numbers in,
//! numbers out.

pub mod comparisons;
pub mod confirmations;
pub mod history;
pub mod open_loop;
pub mod search;
pub mod steadiness;
pub mod waiting;

use dragstrip_crds::workload::ToolSpec;
use dragstrip_results::result::{Operation, PodResult, RepetitionResult, TOTAL};
use rand::{SeedableRng as _, rngs::SmallRng};

/// A property of the rules, and how it came out.
#[derive(Debug, Clone)]
pub struct Property {
    /// What is claimed, as one sentence.
    pub claim: String,
    /// The share of simulated cases in which it held, from 0 to 1.
    pub held: f64,
    /// The least share that is good enough.
    pub least: f64,
    /// How many cases were simulated.
    pub cases: usize,
}

impl Property {
    /// Whether it holds.
    pub fn holds(&self) -> bool {
        self.held >= self.least
    }
}

/// Simulates `claim` in `cases` cases, each with random numbers of its own.
fn property(
    claim: impl Into<String>,
    least: f64,
    cases: usize,
    held: impl Fn(&mut SmallRng) -> bool,
) -> Property {
    let claim = claim.into();
    // Every property has its own stream, whatever others come before it.
    let seed = claim.bytes().fold(0_u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut random = SmallRng::seed_from_u64(seed);
    let held = (0..cases).filter(|_| held(&mut random)).count();
    Property { claim, held: held as f64 / cases.max(1) as f64, least, cases }
}

/// All properties, each simulated in `cases` cases.
pub fn all(cases: usize) -> Vec<Property> {
    let mut all = open_loop::properties(cases);
    all.extend(steadiness::properties(cases));
    all.extend(waiting::properties(cases));
    all.extend(comparisons::properties(cases));
    all.extend(confirmations::properties(cases));
    all.extend(search::properties(cases));
    all.extend(history::properties(cases));
    all
}

/// One client's repetition of so many whole seconds with these operations in each.
fn repetition(per_second: Vec<u64>) -> RepetitionResult {
    let seconds = per_second.len() as f64;
    let count: u64 = per_second.iter().sum();
    let total = Operation {
        name: TOTAL.to_owned(),
        count,
        operations_per_second: Some(count as f64 / seconds),
        ..Operation::default()
    };
    let mut pod = PodResult { complete: true, per_second, ..PodResult::default() };
    pod.window.seconds = seconds;
    RepetitionResult {
        window_seconds: seconds,
        operations: vec![total],
        pods: vec![pod],
        ..RepetitionResult::default()
    }
}

/// The names of what the checks find in `result`.
fn findings(result: &mut RepetitionResult, tool: &ToolSpec) -> Vec<String> {
    dragstrip_results::verdict::judge(result, tool, &[]);
    result.reasons.iter().map(|reason| reason.reason.clone()).collect()
}
