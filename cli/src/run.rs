//! `dragstrip run`: applies Datastores, runs and suites of manifests, once they have been
//! found to be without fault, and follows them. Needs the client and reads files, but for
//! the names, which are pure. What runs without a cluster is [`crate::local`].

use crate::{
    cancel::ended,
    cluster::{self, Cluster, Subject},
    follow, local,
    manifest::{self, Document},
    output::{self, Form},
    report,
    validate::{self, Object, Remark, Weight, judge},
};
use clap::Args;
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, Datastore, units::Period};
use jiff::Timestamp;
use kube::{
    Api, Resource,
    api::{Patch, PatchParams},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{fmt::Debug, process::ExitCode};

/// Whose fields the applied ones are.
const MANAGER: &str = "dragstrip-cli";

/// What is to be run.
// What is flattened into it is a group of the same name.
#[derive(Debug, Clone, Args)]
#[group(id = "run")]
pub struct Options {
    /// On this machine alone, without a cluster: servers and tools are programs on PATH.
    #[arg(long)]
    pub local: bool,
    /// The manifests, and what a local run is told.
    #[command(flatten)]
    pub files: local::Options,
    /// Follow what was applied until it has ended, and print the table.
    #[arg(short, long, conflicts_with = "local")]
    pub watch: bool,
    /// With --watch: give up after this time, such as 90s or 2h, with exit code 2.
    #[arg(long, default_value = "1h", value_parser = follow::period, conflicts_with = "local")]
    pub timeout: Period,
    /// Put this behind the names of runs and suites, to run a manifest once more; the time of
    /// day when no text follows.
    #[arg(long, value_name = "TEXT", num_args = 0..=1, default_missing_value = "", conflicts_with = "local")]
    pub name_suffix: Option<String>,
    /// Ask the apiserver whether it would take all of it, and change nothing.
    #[arg(long, conflicts_with_all = ["local", "watch"])]
    pub dry_run: bool,
}

/// Nothing, or not all, was run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The files are none.
    #[error(transparent)]
    Manifest(#[from] manifest::Error),
    /// They could not be judged.
    #[error(transparent)]
    Validate(#[from] validate::Error),
    /// They have faults.
    #[error("nothing was applied: {0} of the manifests' faults must be mended first")]
    Faults(usize),
    /// There is nothing in them.
    #[error("the manifests hold no Datastore, BenchmarkRun or BenchmarkSuite")]
    Nothing,
    /// What is there could not be had.
    #[error(transparent)]
    Cluster(#[from] cluster::Error),
    /// A run of that name has ended.
    #[error(
        "nothing was applied: {kind} {name} has ended already ({phase}), and what has ended is not run again: give it another name with --name-suffix, use metadata.generateName, or delete it: kubectl delete {kind} {name}"
    )]
    Ended {
        /// run or suite.
        kind: &'static str,
        /// Its name.
        name: String,
        /// How it ended.
        phase: String,
    },
    /// The apiserver refused an object.
    #[error("failed to apply {1}")]
    Apply(#[source] Box<kube::Error>, String),
    /// It could not be followed.
    #[error(transparent)]
    Follow(#[from] follow::Error),
    /// The table could not be made.
    #[error(transparent)]
    Report(#[from] report::Error),
    /// It could not be told.
    #[error(transparent)]
    Output(#[from] output::Error),
}

/// Five letters and digits that no other run made now has: the time in milliseconds.
fn random_end(now: Timestamp) -> String {
    let digits = b"bcdfghjklmnpqrstvwxz2456789";
    let mut number = now.as_millisecond().unsigned_abs();
    let mut end = String::new();
    for _ in 0..5 {
        let place = usize::try_from(number % digits.len() as u64).unwrap_or_default();
        end.extend(digits.get(place).map(|digit| char::from(*digit)));
        number /= digits.len() as u64;
    }
    end
}

/// Gives runs and suites the names under which they are made now.
fn rename(documents: &mut [Document], suffix: Option<&str>, now: Timestamp) {
    let suffix =
        suffix.map(|text| if text.is_empty() { now.strftime("%H%M%S").to_string() } else { text.to_owned() });
    for document in documents.iter_mut().filter(|document| document.is_ours()) {
        let again = ["BenchmarkRun", "BenchmarkSuite"].contains(&document.text("/kind"));
        let (name, prefix) = (document.text("/metadata/name"), document.text("/metadata/generateName"));
        let mut name = match (name.is_empty(), prefix.is_empty()) {
            (true, false) => format!("{prefix}{}", random_end(now)),
            _ => name.to_owned(),
        };
        if let Some(suffix) = suffix.as_ref().filter(|_| again && !name.is_empty()) {
            name = format!("{name}-{suffix}");
        }
        if let Some(metadata) = document.value.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            metadata.remove("generateName");
            metadata.insert("name".to_owned(), Value::String(name));
        }
    }
}

/// An object to be applied, as it is written.
struct Applied {
    kind: &'static str,
    name: String,
    namespace: Option<String>,
    value: Value,
}

impl Applied {
    fn of(document: &Document, object: &Object) -> Self {
        let kind = match object {
            Object::Datastore(_) => "datastore",
            Object::Run(_) => "run",
            Object::Suite => "suite",
        };
        let namespace = Some(document.text("/metadata/namespace")).filter(|text| !text.is_empty());
        let mut value = document.value.clone();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("status");
        }
        let name = document.text("/metadata/name").to_owned();
        Self { kind, name, namespace: namespace.map(str::to_owned), value }
    }

    /// The cluster, in the namespace of the object.
    fn within(&self, cluster: &Cluster) -> Cluster {
        let namespace = self.namespace.clone().unwrap_or_else(|| cluster.namespace.clone());
        Cluster { namespace, ..cluster.clone() }
    }

    /// What is there under its name, where that is a run or suite.
    async fn present(&self, cluster: &Cluster) -> Result<Option<Subject>, cluster::Error> {
        let cluster = self.within(cluster);
        Ok(match self.kind {
            "run" => cluster.find(&self.name).await?.map(|run| Subject::Run(Box::new(run))),
            "suite" => cluster.find(&self.name).await?.map(|suite| Subject::Suite(Box::new(suite))),
            _ => None,
        })
    }

    async fn patch<K>(&self, api: Api<K>, dry_run: bool) -> Result<K, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        let parameters = PatchParams { dry_run, ..PatchParams::apply(MANAGER) };
        let applied = api.patch(&self.name, &parameters, &Patch::Apply(&self.value)).await;
        applied.map_err(|error| Error::Apply(Box::new(error), format!("{} {}", self.kind, self.name)))
    }

    /// Applies it; what it has become, where that is a run or suite.
    async fn apply(&self, cluster: &Cluster, dry_run: bool) -> Result<Option<Subject>, Error> {
        let cluster = self.within(cluster);
        Ok(match self.kind {
            "run" => Some(Subject::Run(Box::new(self.patch::<BenchmarkRun>(cluster.api(), dry_run).await?))),
            "suite" => {
                Some(Subject::Suite(Box::new(self.patch::<BenchmarkSuite>(cluster.api(), dry_run).await?)))
            }
            _ => {
                self.patch::<Datastore>(cluster.api(), dry_run).await?;
                None
            }
        })
    }
}

/// What `options` would apply, without a fault.
fn prepared(options: &Options, now: Timestamp) -> Result<Vec<Applied>, Error> {
    let mut documents = manifest::read(&options.files.files)?;
    rename(&mut documents, options.name_suffix.as_deref(), now);
    let judged = judge(documents).map_err(validate::Error::from)?;
    let told: Vec<&Remark> = judged.remarks.iter().collect();
    for remark in &told {
        output::warn(&remark.to_string());
    }
    if judged.refused() {
        return Err(Error::Faults(told.iter().filter(|remark| remark.weight == Weight::Error).count()));
    }
    if judged.objects.is_empty() {
        return Err(Error::Nothing);
    }
    Ok(judged.objects.iter().map(|(document, object)| Applied::of(document, object)).collect())
}

/// Applies what the manifests declare, and follows it where that is asked for.
pub async fn run(cluster: &Cluster, options: &Options, form: Form) -> Result<ExitCode, Error> {
    let applied = prepared(options, Timestamp::now())?;
    for object in &applied {
        let present = object.present(cluster).await?;
        if let Some(phase) = present.as_ref().and_then(ended) {
            return Err(Error::Ended { kind: object.kind, name: object.name.clone(), phase });
        }
    }
    let (mut subjects, mut within) = (Vec::new(), cluster.clone());
    for object in &applied {
        if let Some(subject) = object.apply(cluster, options.dry_run).await? {
            within = object.within(cluster);
            subjects.push(subject);
        }
        let said = if options.dry_run { " would be applied" } else { " applied" };
        let said = if form == Form::Name { "" } else { said };
        output::line(&format!("{}/{}{said}", object.kind, object.name))?;
    }
    if !options.watch || subjects.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let names: Vec<String> =
        subjects.iter().map(|subject| format!("{}/{}", subject.kind().singular(), subject.name())).collect();
    let ending = follow::subjects(&within, subjects, &options.timeout).await?;
    if ending != follow::Ending::Gone {
        output::line("")?;
        report::print_text(&within, &names).await?;
    }
    Ok(follow::exit_code(ending))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::parse;

    fn now() -> Timestamp {
        "2026-01-01T12:34:56Z".parse().unwrap()
    }

    fn names(text: &str, suffix: Option<&str>) -> Vec<String> {
        let mut documents = parse("a.yaml", text).unwrap();
        rename(&mut documents, suffix, now());
        documents.iter().map(|document| document.text("/metadata/name").to_owned()).collect()
    }

    const BOTH: &str = "apiVersion: dragstrip.dev/v1alpha1\nkind: Datastore\nmetadata: {name: redis}\n---\napiVersion: dragstrip.dev/v1alpha1\nkind: BenchmarkRun\nmetadata: {name: sprint}\n";

    #[test]
    fn a_suffix_is_for_what_is_run_and_not_for_what_it_runs_on() {
        assert_eq!(names(BOTH, None), ["redis", "sprint"]);
        assert_eq!(names(BOTH, Some("b")), ["redis", "sprint-b"]);
        assert_eq!(names(BOTH, Some("")), ["redis", "sprint-123456"]);
    }

    #[test]
    fn a_generated_name_begins_as_it_was_declared() {
        let generated = names(&BOTH.replace("name: sprint", "generateName: sprint-"), None);
        assert!(generated[1].starts_with("sprint-") && generated[1].len() == 12, "{generated:?}");
    }
}
