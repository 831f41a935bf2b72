//! Tries accepted objects: each gets a status soon, its refusals have good messages, edits of a Datastore
//! lead where a new one would begin, and its end leaves nothing behind.

use crate::{
    api::{Answer, Server},
    edits::Case,
    kinds::Kind,
    messages,
};
use anyhow::Result;
use dragstrip_bench_operator::cluster::{Cluster, until};
use kube::core::Status;
use serde_json::{Value, json};
use std::{
    cell::Cell,
    fmt,
    time::{Duration, Instant},
};

/// Longest time until the operator has seen an object.
const STATUS_WITHIN: Duration = Duration::from_secs(30);
/// Longest time until a deleted object and everything of it is gone.
const GONE_WITHIN: Duration = Duration::from_secs(90);
/// How long runs and suites go on before they are deleted.
const UNDER_WAY: Duration = Duration::from_secs(6);
/// Largest status in bytes.
const LARGEST_STATUS: usize = 256 << 10;
/// Reasons of Ready that refuse a Datastore's spec.
const REFUSALS: [&str; 7] = [
    "InvalidForEngine",
    "InvalidPorts",
    "InvalidCpus",
    "InvalidMemory",
    "InvalidResources",
    "Incomplete",
    "Refused",
];

/// A property that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The property, by which equal faults are known.
    pub property: &'static str,
    /// What was found instead.
    pub detail: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.property, self.detail)
    }
}

impl std::error::Error for Fault {}

fn fault<T>(property: &'static str, detail: impl Into<String>) -> Result<T> {
    Err(Fault { property, detail: detail.into() }.into())
}

/// Fails if `status` refuses an object of `kind` without a good message.
pub fn check_refusal(kind: &Kind, status: &Status) -> Result<()> {
    if status.code >= 500 {
        return fault(
            "the API server can judge every object",
            format!("{}: {}", status.code, status.message),
        );
    }
    let problem = messages::fault(&status.message, true, &kind.fields);
    problem.map_or(Ok(()), |problem| {
        fault("a refusal of the API server names the field", format!("{problem}: {}", status.message))
    })
}

/// Objects to try: one, or the specs of one Datastore one after the other.
#[derive(Debug, Clone)]
pub struct Trial<'a> {
    /// Their kind.
    pub kind: &'a Kind,
    /// Their specs; all have the name of the first.
    pub cases: Vec<Case>,
}

/// What a trial did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outcome {
    /// Specs that the operator refused.
    pub refused: usize,
    /// Datastores whose objects were compared with those of another one.
    pub comparisons: usize,
}

/// Where trials take place.
pub struct Place {
    /// The API server.
    pub server: Server,
    /// The same, for what makes namespaces.
    pub cluster: Cluster,
    /// Namespaces so far.
    pub namespaces: Cell<usize>,
}

/// A trial under way.
pub struct Attempt<'a> {
    place: &'a Place,
    trial: &'a Trial<'a>,
    namespace: String,
    fresh: String,
}

/// An object that the operator has seen.
struct Settled {
    object: Value,
    /// Why the operator refuses it.
    refusal: Option<String>,
    children: Value,
}

impl Settled {
    /// Why it is refused, as the operator's status of a run, a suite or a Datastore shows it.
    fn refusal(object: &Value) -> Option<String> {
        let conditions = object["status"]["conditions"].as_array()?;
        let refuses = |condition: &&Value| match condition["type"].as_str() {
            Some("Ready") => REFUSALS.iter().any(|reason| condition["reason"] == *reason),
            Some("Passed") => condition["reason"] == "Invalid",
            _ => false,
        };
        Some(conditions.iter().find(refuses)?["message"].as_str()?.to_owned())
    }
}

/// The first places where two values differ.
fn differences(one: &Value, other: &Value, pointer: &str, found: &mut Vec<String>) {
    let keys = |value: &Value| -> Vec<String> {
        match value {
            Value::Object(fields) => fields.keys().cloned().collect(),
            Value::Array(items) => (0..items.len()).map(|index| index.to_string()).collect(),
            _ => Vec::new(),
        }
    };
    let mut all = [keys(one), keys(other)].concat();
    all.sort();
    all.dedup();
    if one == other || found.len() >= 5 {
        return;
    }
    if all.is_empty() || one.is_object() != other.is_object() || one.is_array() != other.is_array() {
        found.push(format!("{pointer}: {one} instead of {other}"));
        return;
    }
    for key in all {
        let below = |value: &Value| {
            value.pointer(&format!("/{}", key.replace('~', "~0").replace('/', "~1"))).cloned()
        };
        let (one, other) = (below(one).unwrap_or_default(), below(other).unwrap_or_default());
        differences(&one, &other, &format!("{pointer}/{key}"), found);
    }
}

fn same(property: &'static str, found: &Value, expected: &Value) -> Result<()> {
    let mut all = Vec::new();
    differences(found, expected, "", &mut all);
    if all.is_empty() { Ok(()) } else { fault(property, all.join("; ")) }
}

impl<'a> Attempt<'a> {
    /// Makes namespaces for `trial`.
    pub async fn begin(place: &'a Place, trial: &'a Trial<'a>) -> Result<Self> {
        place.namespaces.set(place.namespaces.get() + 1);
        let namespace = format!("spec-{}-it", place.namespaces.get());
        let fresh = format!("spec-{}-as-new", place.namespaces.get());
        for name in [&namespace, &fresh] {
            place.cluster.namespace(name).await?;
        }
        Ok(Self { place, trial, namespace, fresh })
    }

    fn path(&self, namespace: &str) -> String {
        format!("/apis/dragstrip.dev/v1alpha1/namespaces/{namespace}/{}", self.trial.kind.plural)
    }

    fn object_path(&self, namespace: &str) -> String {
        format!("{}/{}", self.path(namespace), self.trial.cases[0].name)
    }

    /// Creates the object with this spec and waits for the operator.
    async fn create(&self, namespace: &str, spec: &Value) -> Result<Settled> {
        let object = manifest(self.trial.kind, &self.trial.cases[0].name, spec);
        match self.place.server.create(&self.path(namespace), &object).await? {
            Answer::Object(_) => self.settled(namespace).await,
            Answer::Refusal(status) => fault("what a dry run accepts is accepted", status.message),
        }
    }

    /// Waits until the operator has seen the object, and checks what it says.
    async fn settled(&self, namespace: &str) -> Result<Settled> {
        let (path, begun) = (self.object_path(namespace), Instant::now());
        let object = loop {
            let Some(object) = self.place.server.find(&path).await? else {
                // It had a time to live.
                return Ok(Settled { object: Value::Null, refusal: None, children: Value::Null });
            };
            let status = &object["status"];
            if status["observedGeneration"] == object["metadata"]["generation"] {
                break object;
            }
            let conditions = status["conditions"].as_array().into_iter().flatten();
            if let Some(it) = conditions.clone().find(|condition| condition["type"] == "Decodable") {
                return fault(
                    "the operator can decode what the API server accepts",
                    it["message"].to_string(),
                );
            }
            if begun.elapsed() > STATUS_WITHIN {
                return fault(
                    "every object gets a status soon",
                    format!("after {STATUS_WITHIN:?}: {status}"),
                );
            }
            tokio::time::sleep(Duration::from_millis(150)).await;
        };
        let size = object["status"].to_string().len();
        if size > LARGEST_STATUS {
            return fault("a status is small", format!("{size} bytes"));
        }
        let refusal = Settled::refusal(&object);
        let texts = object["status"]["conditions"].as_array().into_iter().flatten().map(|it| &it["message"]);
        let texts = texts.chain([&object["status"]["message"]]).filter_map(Value::as_str);
        for (text, refuses) in
            texts.map(|text| (text, false)).chain(refusal.as_deref().map(|text| (text, true)))
        {
            if let Some(problem) = messages::fault(text, refuses, &self.trial.kind.fields) {
                return fault("a message of the operator names the field", format!("{problem}: {text}"));
            }
        }
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        let children = self.place.server.children(namespace, uid).await?;
        Ok(Settled { object, refusal, children })
    }

    /// Tries it; the objects stay.
    pub async fn observe(&self) -> Result<Outcome> {
        let first = self.create(&self.namespace, &self.trial.cases[0].spec).await?;
        let mut outcome = Outcome { refused: usize::from(first.refusal.is_some()), comparisons: 0 };
        if self.trial.kind.name == "Datastore" {
            self.edits(first, &mut outcome).await?;
        } else {
            self.wait(&first).await?;
        }
        Ok(outcome)
    }

    /// Lets a run or a suite go on for a while.
    async fn wait(&self, first: &Settled) -> Result<()> {
        let begun = Instant::now();
        let ended = async || {
            let found = self.place.server.find(&self.object_path(&self.namespace)).await?;
            let ended = found.is_none_or(|object| object["status"]["finishedAt"].is_string());
            Ok(ended || begun.elapsed() > UNDER_WAY)
        };
        until("the run or suite", 2 * UNDER_WAY, ended).await?;
        let now = self.settled(&self.namespace).await?;
        if first.refusal.is_some()
            && !now.object.is_null()
            && now.object["status"]["finishedAt"] != first.object["status"]["finishedAt"]
        {
            return fault("a refused object stays as it is", now.object["status"].to_string());
        }
        Ok(())
    }

    /// The object with another spec; `None` if the API server refuses the change.
    async fn edit(&self, spec: &Value) -> Result<Option<Settled>> {
        match self.place.server.edit(&self.object_path(&self.namespace), spec).await? {
            Answer::Object(_) => self.settled(&self.namespace).await.map(Some),
            Answer::Refusal(status) => check_refusal(self.trial.kind, &status).map(|()| None),
        }
    }

    /// Edits a Datastore to each of its specs and back to the first.
    async fn edits(&self, first: Settled, outcome: &mut Outcome) -> Result<()> {
        let (mut before, mut reached) = (first.children.clone(), 0);
        for (index, case) in self.trial.cases.iter().enumerate().skip(1) {
            let Some(settled) = self.edit(&case.spec).await? else { continue };
            reached = index;
            outcome.refused += usize::from(settled.refusal.is_some());
            if settled.refusal.is_some() {
                same("an edit that the operator refuses changes no object", &settled.children, &before)?;
            }
            before = settled.children;
        }
        if reached > 0 {
            let new = self.create(&self.fresh, &self.trial.cases[reached].spec).await?;
            if new.refusal.is_none() {
                same("a Datastore after edits equals a new one", &before, &new.children)?;
                outcome.comparisons += 1;
            }
        }
        if reached > 0
            && first.refusal.is_none()
            && let Some(again) = self.edit(&self.trial.cases[0].spec).await?
        {
            same("the first spec restores the first objects", &again.children, &first.children)?;
            outcome.comparisons += 1;
        }
        Ok(())
    }

    /// Deletes everything and waits until nothing of it is left.
    pub async fn end(&self) -> Result<()> {
        let namespaces = [&self.namespace, &self.fresh];
        for namespace in namespaces {
            self.place.server.delete(&self.object_path(namespace)).await?;
        }
        let begun = Instant::now();
        for namespace in namespaces {
            loop {
                let left = self.place.server.leftovers(namespace).await?;
                if left.is_empty() {
                    break;
                }
                if begun.elapsed() > GONE_WITHIN {
                    return fault(
                        "an end leaves nothing behind",
                        format!("after {GONE_WITHIN:?}: {}", left.join(", ")),
                    );
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            self.place.server.delete(&format!("/api/v1/namespaces/{namespace}")).await?;
        }
        Ok(())
    }
}

/// An object of `kind`.
pub fn manifest(kind: &Kind, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "dragstrip.dev/v1alpha1", "kind": kind.name, "metadata": {"name": name}, "spec": spec})
}

/// The fault in `result`; any other error stays one.
pub fn split<T>(result: Result<T>) -> Result<Result<T, Fault>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) => match error.downcast::<Fault>() {
            Ok(fault) => Ok(Err(fault)),
            Err(error) => Err(error),
        },
    }
}
