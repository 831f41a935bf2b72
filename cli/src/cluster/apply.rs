//! `dragstrip run` on a cluster: checks manifests, applies them, and follows what they run.
//! Needs the client and reads files.

use super::{client::Cluster, follow, report};
use crate::{
    local,
    manifests::{
        check::{Checked, Object, Remark, check},
        documents::{self, Document},
        kind::Kind,
    },
    output::{
        errors::Outcome,
        print::{self, Done},
    },
};
use clap::Args;
use dragstrip_crds::units::Period;
use kube::api::{Patch, PatchParams};
use serde_json::Value;
use std::{collections::BTreeSet, process::ExitCode};

const MANAGER: &str = "dragstrip-cli";

#[derive(Debug, Clone, Args)]
#[group(id = "run")]
// Each is a flag that people set.
#[allow(clippy::struct_excessive_bools)]
pub struct Options {
    /// Run on this machine alone, without a cluster: servers and tools are programs on PATH.
    #[arg(long, conflicts_with = "output")]
    pub local: bool,
    #[command(flatten)]
    pub files: local::Options,
    /// Follow the applied runs and suites until they end, and print their reports.
    #[arg(short, long, conflicts_with_all = ["local", "output"])]
    pub watch: bool,
    /// With --watch, give up after this time, such as 90s or 2h, with exit code 2.
    #[arg(long, default_value = "1h", conflicts_with = "local")]
    pub timeout: Period,
    /// Append -TEXT to the names of runs and suites, to run a manifest again.
    #[arg(long, value_name = "TEXT", conflicts_with = "local")]
    pub name_suffix: Option<String>,
    /// Let the API server check everything, and change nothing.
    #[arg(long, conflicts_with_all = ["local", "watch"])]
    pub dry_run: bool,
    /// Take over fields that another client, such as kubectl apply, has set.
    #[arg(long, conflicts_with = "local")]
    pub force_conflicts: bool,
    #[command(flatten)]
    pub output: print::Options,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("nothing was applied: correct the {0} errors in the manifests first")]
    Invalid(usize),
    #[error("the manifests declare no Datastore, BenchmarkRun or BenchmarkSuite")]
    Empty,
    #[error("nothing was applied: the manifests declare no run or suite to follow: leave --watch out")]
    NothingToWatch,
    #[error(
        "nothing was applied: --watch follows one namespace, and the runs and suites are in {0}: leave --watch out, and follow them in each namespace with --namespace"
    )]
    Namespaces(String),
    #[error(
        "nothing was applied: {title} has already ended ({phase}) and cannot run again: give it another name with --name-suffix, or delete it: kubectl delete {kind} {name}"
    )]
    Ended { title: String, kind: &'static str, name: String, phase: String },
    #[error("failed to apply {1}")]
    Apply(#[source] Box<kube::Error>, String),
    #[error(
        "failed to apply {1}, because another client has set its fields: take them over with --force-conflicts"
    )]
    Conflict(#[source] Box<kube::Error>, String),
}

/// Appends `suffix` to the names of runs and suites.
fn rename(documents: &mut [Document], suffix: Option<&str>) {
    let Some(suffix) = suffix else { return };
    for document in documents.iter_mut().filter(|document| document.is_ours()) {
        let runs = ["BenchmarkRun", "BenchmarkSuite"].contains(&document.text("/kind"));
        if let Some(Value::String(name)) = document.value.pointer_mut("/metadata/name").filter(|_| runs) {
            *name = format!("{name}-{suffix}");
        }
    }
}

/// Fields that the API server sets and refuses in an applied object.
const SERVER_FIELDS: [&str; 5] =
    ["creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"];

struct Declared {
    object: Object,
    name: String,
    namespace: Option<String>,
    value: Value,
}

impl Declared {
    fn new(document: &Document, object: &Object) -> Self {
        let namespace = Some(document.text("/metadata/namespace")).filter(|text| !text.is_empty());
        let mut value = document.value.clone();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("status");
        }
        if let Some(metadata) = value.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| !SERVER_FIELDS.contains(&field.as_str()));
        }
        let name = document.text("/metadata/name").to_owned();
        Self { object: object.clone(), name, namespace: namespace.map(str::to_owned), value }
    }

    fn title(&self) -> String {
        format!("{}/{}", self.object.kind().singular(), self.name)
    }

    fn namespace<'a>(&'a self, default: &'a str) -> &'a str {
        self.namespace.as_deref().unwrap_or(default)
    }

    async fn apply(&self, cluster: &Cluster, options: &Options) -> Result<(), Error> {
        let (dry_run, force) = (options.dry_run, options.force_conflicts);
        let parameters = PatchParams { dry_run, force, ..PatchParams::apply(MANAGER) };
        let within = cluster.within(self.namespace(&cluster.namespace));
        let place = (self.object.kind(), self.name.as_str());
        let patched = within.patch(place, &parameters, &Patch::Apply(&self.value)).await;
        patched.map_err(|error| match &error {
            kube::Error::Api(status) if status.is_conflict() => {
                Error::Conflict(Box::new(error), self.title())
            }
            _ => Error::Apply(Box::new(error), self.title()),
        })
    }

    /// The line about it, for a command that works in `namespace`.
    fn done(&self, namespace: &str, options: &Options) -> Done {
        let state = if options.dry_run { "would be applied" } else { "applied" };
        let elsewhere = self.namespace.clone().filter(|own| own != namespace);
        Done { name: self.title(), namespace: elsewhere, state: state.to_owned() }
    }
}

/// Objects in another namespace than `requested`, which kubectl refuses too.
fn misplaced(checked: &Checked, requested: Option<&str>) -> Vec<Remark> {
    let Some(requested) = requested else { return Vec::new() };
    let documents = checked.objects.iter().map(|(document, _)| document);
    let remark = |document: &Document| {
        let own = document.text("/metadata/namespace");
        let message = format!("is {own}, and --namespace is {requested}: leave one of the two out");
        (!["", requested].contains(&own)).then(|| Remark::error(document, "metadata.namespace", message))
    };
    documents.filter_map(remark).collect()
}

/// The objects to apply, all valid; `requested` is the namespace of the command line.
fn prepare(options: &Options, requested: Option<&str>) -> Outcome<Vec<Declared>> {
    let mut documents = documents::read(&options.files.files)?;
    rename(&mut documents, options.name_suffix.as_deref());
    let mut checked = check(documents);
    checked.remarks.extend(misplaced(&checked, requested));
    for remark in &checked.remarks {
        print::warn(&remark.to_string());
    }
    if checked.errors() > 0 {
        return Err(Error::Invalid(checked.errors()).into());
    }
    if checked.objects.is_empty() {
        return Err(Error::Empty.into());
    }
    Ok(checked.objects.iter().map(|(document, object)| Declared::new(document, object)).collect())
}

/// The one namespace of all runs and suites, each of which must end; `default` is that of
/// objects that name none.
fn watched_namespace<'a>(declared: &'a [Declared], default: &'a str) -> Outcome<&'a str> {
    let endless = declared.iter().find_map(|declared| match &declared.object {
        Object::Suite(suite) => follow::endless(suite),
        _ => None,
    });
    if let Some(error) = endless {
        return Err(error.into());
    }
    let ending = declared.iter().filter(|declared| declared.object.kind() != Kind::Datastore);
    let namespaces: BTreeSet<&str> = ending.map(|object| object.namespace(default)).collect();
    match namespaces.into_iter().collect::<Vec<_>>().as_slice() {
        [] => Err(Error::NothingToWatch.into()),
        [one] => Ok(one),
        several => Err(Error::Namespaces(several.join(" and ")).into()),
    }
}

async fn refuse_ended(cluster: &Cluster, declared: &[Declared]) -> Outcome<()> {
    for object in declared {
        let within = cluster.within(object.namespace(&cluster.namespace));
        let present = within.find_subject(object.object.kind(), &object.name).await?;
        if let Some(phase) = present.and_then(|subject| subject.final_phase()) {
            let (kind, name) = (object.object.kind().singular(), object.name.clone());
            return Err(Error::Ended { title: object.title(), kind, name, phase }.into());
        }
    }
    Ok(())
}

/// Applies everything before it prints: a reader that goes away leaves nothing half applied.
async fn apply_all(cluster: &Cluster, declared: &[Declared], options: &Options) -> Outcome<()> {
    let (mut done, mut outcome) = (Vec::new(), Ok(()));
    for object in declared {
        outcome = object.apply(cluster, options).await;
        if outcome.is_err() {
            break;
        }
        done.push(object.done(&cluster.namespace, options));
    }
    let printed = print::print_done(&done, options.output.form);
    outcome?;
    Ok(printed?)
}

/// Applies the manifests, and follows them with --watch, by default in the namespace `requested`.
pub async fn run(cluster: &Cluster, options: &Options, requested: Option<&str>) -> Outcome<ExitCode> {
    let declared = prepare(options, requested)?;
    let watched = if options.watch { Some(watched_namespace(&declared, &cluster.namespace)?) } else { None };
    refuse_ended(cluster, &declared).await?;
    apply_all(cluster, &declared, options).await?;
    let Some(namespace) = watched else { return Ok(ExitCode::SUCCESS) };
    let within = cluster.within(namespace);
    let names = declared.iter().filter(|object| object.object.kind() != Kind::Datastore);
    let names: Vec<String> = names.map(Declared::title).collect();
    let subjects = within.subjects(&names).await?;
    let ending = follow::subjects(&within, subjects, &options.timeout).await?;
    if ending != follow::Ending::Gone {
        print::line("")?;
        report::print_text(&within, &names).await?;
    }
    Ok(ending.exit_code())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::documents::parse;

    fn names(text: &str, suffix: Option<&str>) -> Vec<String> {
        let mut documents = parse("a.yaml", text).unwrap();
        rename(&mut documents, suffix);
        documents.iter().map(|document| document.text("/metadata/name").to_owned()).collect()
    }

    const BOTH: &str = "apiVersion: dragstrip.dev/v1alpha1\nkind: Datastore\nmetadata: {name: redis}\n---\napiVersion: dragstrip.dev/v1alpha1\nkind: BenchmarkRun\nmetadata: {name: sprint}\n";

    #[test]
    fn a_suffix_is_for_runs_and_not_for_datastores() {
        assert_eq!(names(BOTH, None), ["redis", "sprint"]);
        assert_eq!(names(BOTH, Some("b")), ["redis", "sprint-b"]);
    }

    /// A valid run called `name`, whose metadata has `more`.
    fn sprint(name: &str, more: &str) -> String {
        format!(
            "apiVersion: dragstrip.dev/v1alpha1\nkind: BenchmarkRun\nmetadata:\n  name: {name}\n{more}spec: {{target: {{datastoreRef: {{name: redis}}}}, phases: [{{name: read, loadgen: {{duration: 5s}}}}]}}\n---\n"
        )
    }

    fn checked(text: &str) -> Checked {
        let checked = check(parse("a.yaml", text).unwrap());
        assert_eq!(checked.errors(), 0, "{:?}", checked.remarks);
        checked
    }

    fn declared(text: &str) -> Vec<Declared> {
        checked(text).objects.iter().map(|(document, object)| Declared::new(document, object)).collect()
    }

    #[test]
    fn a_manifest_of_another_namespace_than_the_requested_one_is_refused() {
        let lab = checked(&(sprint("a", "  namespace: lab\n") + &sprint("b", "")));
        assert!(misplaced(&lab, None).is_empty() && misplaced(&lab, Some("lab")).is_empty());
        let remarks: Vec<String> = misplaced(&lab, Some("races")).iter().map(Remark::to_string).collect();
        assert_eq!(
            remarks,
            [
                "a.yaml: error: BenchmarkRun a: metadata.namespace: is lab, and --namespace is races: leave one of the two out"
            ]
        );
    }

    #[test]
    fn what_is_watched_ends_and_is_in_one_namespace() {
        let place = |text: &str| {
            watched_namespace(&declared(text), "races").map(str::to_owned).map_err(|error| error.to_string())
        };
        assert_eq!(place(&sprint("a", "")), Ok("races".to_owned()));
        assert_eq!(place(&sprint("a", "  namespace: lab\n")), Ok("lab".to_owned()));
        let several = place(&(sprint("a", "") + &sprint("b", "  namespace: lab\n")));
        assert!(several.is_err_and(|error| error.contains("are in lab and races")));
        let datastore = "apiVersion: dragstrip.dev/v1alpha1\nkind: Datastore\nmetadata: {name: redis}\nspec: {engine: Redis, threads: 1}\n";
        assert!(place(datastore).is_err_and(|error| error.contains("leave --watch out")));
        let nightly = include_str!("../../../examples/suite-schedule.yaml");
        assert!(
            place(nightly).is_err_and(|error| error.contains("suite/nightly starts rounds on a schedule"))
        );
    }

    #[test]
    fn fields_that_the_api_server_sets_are_not_applied() {
        let more = "  uid: u\n  resourceVersion: \"7\"\n  labels: {team: cache}\n";
        let value = &declared(&sprint("a", more))[0].value;
        assert_eq!(value["metadata"], serde_json::json!({"name": "a", "labels": {"team": "cache"}}));
    }
}
