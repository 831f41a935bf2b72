//! Makes objects that show a fault smaller, as long as they show the same fault.

use crate::{
    api::Server,
    bench::Bench,
    edits::{Case, smaller},
    judge,
    kinds::Kind,
    trial::{Fault, Trial, split},
};
use anyhow::Result;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Longest time to make the objects of one fault smaller.
const WITHIN: Duration = Duration::from_secs(240);

/// A smaller spec that the API server refuses with the same fault.
pub async fn refusal(server: &Server, kind: &Kind, case: &Case, fault: &Fault) -> Result<Value> {
    let (mut case, begun) = (case.clone(), Instant::now());
    'again: loop {
        for spec in smaller(&case.spec) {
            let one = Case { spec, ..case.clone() };
            if split(judge(server, kind, &one).await)?.is_err_and(|other| other.property == fault.property) {
                case = one;
                continue 'again;
            }
            if begun.elapsed() > WITHIN {
                return Ok(case.spec);
            }
        }
        return Ok(case.spec);
    }
}

/// Smaller forms of `trial`: with fewer edits, or a smaller spec.
fn candidates<'a>(trial: &Trial<'a>) -> Vec<Trial<'a>> {
    let kind = trial.kind;
    let mut all = Vec::new();
    for index in (0..trial.cases.len()).filter(|_| trial.cases.len() > 1) {
        let mut cases = trial.cases.clone();
        cases.remove(index);
        all.push(Trial { kind, cases });
    }
    for (index, case) in trial.cases.iter().enumerate() {
        all.extend(smaller(&case.spec).into_iter().map(|spec| {
            let mut cases = trial.cases.clone();
            cases[index].spec = spec;
            Trial { kind, cases }
        }));
    }
    all
}

/// A smaller trial with the same fault.
pub async fn trial<'a>(bench: &Bench, trial: &Trial<'a>, fault: &Fault) -> Result<Trial<'a>> {
    let (mut trial, begun) = (trial.clone(), Instant::now());
    'again: loop {
        for candidate in candidates(&trial) {
            if begun.elapsed() > WITHIN {
                return Ok(trial);
            }
            let mut accepted = true;
            for case in &candidate.cases {
                let verdict = split(judge(&bench.place.server, candidate.kind, case).await)?;
                accepted &= verdict.is_ok_and(|(accepted, _)| accepted);
            }
            if !accepted {
                continue;
            }
            let found = bench.run(std::slice::from_ref(&candidate)).await?.remove(0);
            if found.is_err_and(|other| other.property == fault.property) {
                trial = candidate;
                continue 'again;
            }
        }
        return Ok(trial);
    }
}
