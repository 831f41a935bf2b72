//! The operator's own rules over random specs: they never panic, and what they refuse has a good message.
//! What they cannot decode is the API server's to refuse: the trials show whether it does.

use crate::{
    edits::specification,
    kinds::{Kind, kinds},
    messages,
    trial::manifest,
};
use dragstrip_core::{datastore, run, suite};
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, Datastore, conditions::shortened};
use k8s_openapi::api::core::v1::Node;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use serde::de::DeserializeOwned;
use serde_json::json;

/// Random specs of each kind.
const CASES: u32 = 250;

/// Checks the messages with which `refusal` refuses objects of the kind at `index`.
fn check<K: DeserializeOwned>(index: usize, refusal: impl Fn(&K) -> Option<String>) {
    let kind: Kind = kinds().unwrap().remove(index);
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    // The same specs every time: `make test-specifications` tries others.
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let result = runner.run(&specification(&kind), |spec| {
        let mut object = manifest(&kind, "x", &spec);
        object["metadata"] = json!({"name": "x", "namespace": "races", "uid": "1", "generation": 1});
        let refused = serde_json::from_value(object).ok().and_then(|object| refusal(&object));
        let problem = refused.and_then(|text| {
            // As an object's status shows it.
            let text = shortened(&text);
            Some(format!("{}: {text}", messages::fault(&text, true, &kind.fields)?))
        });
        problem.map_or(Ok(()), |problem| Err(TestCaseError::fail(problem)))
    });
    result.unwrap_or_else(|error| panic!("{} {error}", kind.name));
}

#[test]
fn datastores_are_refused_with_the_name_of_a_field() {
    check(0, |it: &Datastore| {
        datastore::validate::validate::<Node>(it, &[]).err().map(|why| why.to_string())
    });
}

#[test]
fn runs_are_refused_with_the_name_of_a_field() {
    check(1, |it: &BenchmarkRun| run::validate::validate(it).err().map(|why| why.to_string()));
}

#[test]
fn suites_are_refused_with_the_name_of_a_field() {
    check(2, |it: &BenchmarkSuite| suite::validate::validate(it).err().map(|why| why.to_string()));
}
