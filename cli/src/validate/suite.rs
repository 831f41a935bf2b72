//! What is wrong with a suite, and with the runs that it would make. Pure.

use super::{
    admission::broken_rules,
    fields::{dotted, named},
    rules,
    schema::Misfit,
};
use crate::manifest::Document;
use dragstrip_core::suite::expand::{ChildRun, expand};
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite};
use std::collections::BTreeSet;

/// `child` as the run that would be made.
fn run_of(child: &ChildRun, suite: &BenchmarkSuite) -> BenchmarkRun {
    let mut run = BenchmarkRun::new(&child.name, child.spec.clone());
    run.metadata.namespace.clone_from(&suite.metadata.namespace);
    run.metadata.uid.clone_from(&suite.metadata.uid);
    run
}

/// What the apiserver and the operator would say against the run, in words.
fn against_child(child: &ChildRun, suite: &BenchmarkSuite) -> Vec<String> {
    let run = run_of(child, suite);
    let broken = broken_rules(&run);
    if broken.is_empty() {
        return rules::own_faults(&run).into_iter().map(|(_, rule)| rule.message).collect();
    }
    broken.into_iter().map(|rule| rule.message).collect()
}

/// Where the suite says what `message` is about: in its template, or in the run's variant.
fn place(document: &Document, child: &ChildRun, message: &str) -> String {
    let variant = format!("spec.variants[{}].target", child.cell.variant);
    let variant = super::fields::pointer(document, &variant);
    let bases = ["/spec/run".to_owned(), format!("{variant}/datastore"), variant];
    let found = bases.iter().map(|base| (base, named(document, base, message)));
    let deepest =
        found.max_by_key(|(base, pointer)| dotted(pointer).len().saturating_sub(dotted(base).len()));
    deepest.map_or_else(|| "/spec".to_owned(), |(_, pointer)| pointer)
}

/// What the operator says against `suite` and its runs.
pub fn against(document: &Document, suite: &BenchmarkSuite) -> Vec<Misfit> {
    let expanded = match expand(suite) {
        Ok(expanded) => expanded,
        Err(invalid) => {
            let told = |problem: &dyn ToString| {
                let message = problem.to_string();
                Misfit { pointer: named(document, "/spec", &message), message }
            };
            return invalid.0.iter().map(|problem| told(problem)).collect();
        }
    };
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    for child in expanded.runs.iter().filter(|child| child.repetition == 1) {
        for message in against_child(child, suite) {
            let pointer = place(document, child, &message);
            // Told once, by the first of the combinations that share it.
            if seen.insert((pointer.clone(), message.clone())) {
                let values = child.cell.values.join(" ");
                let cell = [child.cell.variant.as_str(), &values].join(" ");
                let message = format!("the run of {} cannot be made: {message}", cell.trim_end());
                found.push(Misfit { pointer, message });
            }
        }
    }
    found
}
