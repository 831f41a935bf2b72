//! `dragstrip run`: applies Datastores, runs and suites of manifests, once they have been
//! found to be without fault, and follows them. Needs the client and reads files, but for
//! the names, which are pure. What runs without a cluster is [`crate::local`].

use crate::{
    cancel::ended,
    cluster::{self, Cluster, Kind, Subject},
    follow, local,
    manifest::{self, Document},
    output::{self, Done},
    report,
    validate::{self, Judged, Object, Remark, Weight, judge},
};
use clap::Args;
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, Datastore, units::Period};
use kube::{
    Api, Resource,
    api::{Patch, PatchParams},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{
    collections::{BTreeSet, hash_map::RandomState},
    fmt::Debug,
    hash::BuildHasher,
    process::ExitCode,
};

/// Whose fields the applied ones are.
const MANAGER: &str = "dragstrip-cli";

/// What is to be run.
// What is flattened into it is a group of the same name.
#[derive(Debug, Clone, Args)]
#[group(id = "run")]
// Each is a flag that people set.
#[allow(clippy::struct_excessive_bools)]
pub struct Options {
    /// On this machine alone, without a cluster: servers and tools are programs on PATH.
    #[arg(long, conflicts_with = "output")]
    pub local: bool,
    /// The manifests, and what a local run is told.
    #[command(flatten)]
    pub files: local::Options,
    /// Follow what was applied until it has ended, and print the table.
    #[arg(short, long, conflicts_with_all = ["local", "output"])]
    pub watch: bool,
    /// With --watch: give up after this time, such as 90s or 2h, with exit code 2.
    #[arg(long, default_value = "1h", value_parser = follow::period, conflicts_with = "local")]
    pub timeout: Period,
    /// Put this behind the names of runs and suites, to run a manifest once more; five letters
    /// and digits by chance when no text follows.
    #[arg(long, value_name = "TEXT", num_args = 0..=1, default_missing_value = "", conflicts_with = "local")]
    pub name_suffix: Option<String>,
    /// Ask the apiserver whether it would take all of it, and change nothing.
    #[arg(long, conflicts_with_all = ["local", "watch"])]
    pub dry_run: bool,
    /// Take over fields that somebody else has set, such as kubectl apply.
    #[arg(long, conflicts_with = "local")]
    pub force_conflicts: bool,
    /// The form.
    #[command(flatten)]
    pub output: output::Options,
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
    /// None of it ends.
    #[error(
        "nothing was applied: --watch looks at runs and suites, and the manifests hold none: leave --watch out"
    )]
    NothingToWatch,
    /// A suite never ends.
    #[error(
        "nothing was applied: suite/{0} makes rounds by its schedule and has no end to watch for: leave --watch out, and follow a round of it when there is one (status.lastRound)"
    )]
    Rounds(String),
    /// They are too far apart to be looked at together.
    #[error(
        "nothing was applied: --watch looks at one namespace, and the runs and suites are in {0}: leave --watch out, and follow those of each with --namespace"
    )]
    Namespaces(String),
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
    /// Its fields are somebody else's.
    #[error("failed to apply {1}, whose fields somebody else has set: take them over with --force-conflicts")]
    Conflict(#[source] Box<kube::Error>, String),
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

/// Five letters and digits by chance, of which Kubernetes makes names.
fn random_end() -> String {
    let digits = b"bcdfghjklmnpqrstvwxz2456789";
    // Its keys are what the standard library has of chance.
    let mut number = RandomState::new().hash_one(digits);
    let mut end = String::new();
    for _ in 0..5 {
        let place = usize::try_from(number % digits.len() as u64).unwrap_or_default();
        end.extend(digits.get(place).map(|digit| char::from(*digit)));
        number /= digits.len() as u64;
    }
    end
}

/// Gives runs and suites the names under which they are made now.
fn rename(documents: &mut [Document], suffix: Option<&str>) {
    let suffix = suffix.map(|text| if text.is_empty() { random_end() } else { text.to_owned() });
    for document in documents.iter_mut().filter(|document| document.is_ours()) {
        let again = ["BenchmarkRun", "BenchmarkSuite"].contains(&document.text("/kind"));
        let (name, prefix) = (document.text("/metadata/name"), document.text("/metadata/generateName"));
        let mut name = match (name.is_empty(), prefix.is_empty()) {
            (true, false) => format!("{prefix}{}", random_end()),
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

/// What the apiserver gives an object, and does not take from anybody.
const GIVEN: [&str; 5] = ["creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"];

/// An object to be applied, as it is written.
struct Applied {
    kind: Kind,
    name: String,
    namespace: Option<String>,
    value: Value,
}

impl Applied {
    fn of(document: &Document, object: &Object) -> Self {
        let namespace = Some(document.text("/metadata/namespace")).filter(|text| !text.is_empty());
        let mut value = document.value.clone();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("status");
        }
        if let Some(metadata) = value.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| !GIVEN.contains(&field.as_str()));
        }
        let name = document.text("/metadata/name").to_owned();
        Self { kind: object.kind(), name, namespace: namespace.map(str::to_owned), value }
    }

    fn title(&self) -> String {
        format!("{}/{}", self.kind.singular(), self.name)
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
            Kind::Run => cluster.find(&self.name).await?.map(|run| Subject::Run(Box::new(run))),
            Kind::Suite => cluster.find(&self.name).await?.map(|suite| Subject::Suite(Box::new(suite))),
            Kind::Datastore => None,
        })
    }

    async fn patch<K>(&self, cluster: &Cluster, options: &Options) -> Result<K, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        let (dry_run, force) = (options.dry_run, options.force_conflicts);
        let parameters = PatchParams { dry_run, force, ..PatchParams::apply(MANAGER) };
        let api: Api<K> = self.within(cluster).api();
        match api.patch(&self.name, &parameters, &Patch::Apply(&self.value)).await {
            Ok(applied) => Ok(applied),
            Err(kube::Error::Api(status)) if status.is_conflict() => {
                Err(Error::Conflict(Box::new(kube::Error::Api(status)), self.title()))
            }
            Err(error) => Err(Error::Apply(Box::new(error), self.title())),
        }
    }

    /// Applies it; what it has become, where that is a run or suite.
    async fn apply(&self, cluster: &Cluster, options: &Options) -> Result<Option<Subject>, Error> {
        Ok(match self.kind {
            Kind::Run => Some(Subject::Run(Box::new(self.patch::<BenchmarkRun>(cluster, options).await?))),
            Kind::Suite => {
                Some(Subject::Suite(Box::new(self.patch::<BenchmarkSuite>(cluster, options).await?)))
            }
            Kind::Datastore => self.patch::<Datastore>(cluster, options).await.map(|_| None)?,
        })
    }

    /// What is told of it when it was applied from `namespace`.
    fn done(&self, namespace: &str, options: &Options) -> Done {
        let state = if options.dry_run { "would be applied" } else { "applied" };
        let elsewhere = self.namespace.clone().filter(|own| own != namespace);
        Done { name: self.title(), namespace: elsewhere, state: state.to_owned() }
    }
}

/// Objects in another namespace than the one that was `asked` for, which kubectl refuses too.
fn misplaced(judged: &Judged, asked: Option<&str>) -> Vec<Remark> {
    let Some(asked) = asked else { return Vec::new() };
    let elsewhere = |document: &&Document| !["", asked].contains(&document.text("/metadata/namespace"));
    let documents = judged.objects.iter().map(|(document, _)| document).filter(elsewhere);
    let told = documents.map(|document| {
        let own = document.text("/metadata/namespace");
        let message = format!("is {own}, and --namespace is {asked}: leave one of the two out");
        Remark::of(document, Weight::Error, "/metadata/namespace", message)
    });
    told.collect()
}

/// What `options` would apply, without a fault; `asked` is the namespace of the command.
fn prepared(options: &Options, asked: Option<&str>) -> Result<Vec<Applied>, Error> {
    let mut documents = manifest::read(&options.files.files)?;
    rename(&mut documents, options.name_suffix.as_deref());
    let mut judged = judge(documents).map_err(validate::Error::from)?;
    judged.remarks.extend(misplaced(&judged, asked));
    for remark in &judged.remarks {
        output::warn(&remark.to_string());
    }
    if judged.refused() {
        let faults = judged.remarks.iter().filter(|remark| remark.weight == Weight::Error);
        return Err(Error::Faults(faults.count()));
    }
    if judged.objects.is_empty() {
        return Err(Error::Nothing);
    }
    Ok(judged.objects.iter().map(|(document, object)| Applied::of(document, object)).collect())
}

/// The namespace in which all runs and suites of `applied` can be watched to their ends;
/// `default` is that of objects that name none.
fn watched<'a>(applied: &'a [Applied], default: &'a str) -> Result<&'a str, Error> {
    let ending: Vec<&Applied> = applied.iter().filter(|object| object.kind != Kind::Datastore).collect();
    let scheduled = |object: &&&Applied| object.value.pointer("/spec/schedule").is_some_and(Value::is_string);
    if let Some(suite) = ending.iter().find(scheduled) {
        return Err(Error::Rounds(suite.name.clone()));
    }
    let namespaces = ending.iter().map(|object| object.namespace.as_deref().unwrap_or(default));
    let namespaces: Vec<&str> = namespaces.collect::<BTreeSet<_>>().into_iter().collect();
    match namespaces.as_slice() {
        [] => Err(Error::NothingToWatch),
        [one] => Ok(one),
        several => Err(Error::Namespaces(several.join(" and "))),
    }
}

/// Applies all of `applied` before it tells so: nobody who ceases to read leaves half of it undone.
async fn apply_all(cluster: &Cluster, applied: &[Applied], options: &Options) -> Result<Vec<Subject>, Error> {
    let (mut subjects, mut done, mut outcome) = (Vec::new(), Vec::new(), Ok(()));
    for object in applied {
        match object.apply(cluster, options).await {
            Ok(subject) => {
                subjects.extend(subject);
                done.push(object.done(&cluster.namespace, options));
            }
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    let told = output::print_done(&done, options.output.form);
    outcome.and_then(|()| Ok(told.map(|()| subjects)?))
}

/// Applies what the manifests declare, and follows it where that is asked for. `asked` is the
/// namespace that was named.
pub async fn run(cluster: &Cluster, options: &Options, asked: Option<&str>) -> Result<ExitCode, Error> {
    let applied = prepared(options, asked)?;
    let watched = if options.watch { Some(watched(&applied, &cluster.namespace)?) } else { None };
    for object in &applied {
        let present = object.present(cluster).await?;
        if let Some(phase) = present.as_ref().and_then(ended) {
            return Err(Error::Ended { kind: object.kind.singular(), name: object.name.clone(), phase });
        }
    }
    let subjects = apply_all(cluster, &applied, options).await?;
    let Some(namespace) = watched else { return Ok(ExitCode::SUCCESS) };
    let within = Cluster { namespace: namespace.to_owned(), ..cluster.clone() };
    let names: Vec<String> = subjects.iter().map(Subject::title).collect();
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

    fn names(text: &str, suffix: Option<&str>) -> Vec<String> {
        let mut documents = parse("a.yaml", text).unwrap();
        rename(&mut documents, suffix);
        documents.iter().map(|document| document.text("/metadata/name").to_owned()).collect()
    }

    const BOTH: &str = "apiVersion: dragstrip.dev/v1alpha1\nkind: Datastore\nmetadata: {name: redis}\n---\napiVersion: dragstrip.dev/v1alpha1\nkind: BenchmarkRun\nmetadata: {name: sprint}\n";

    #[test]
    fn a_suffix_is_for_what_is_run_and_not_for_what_it_runs_on() {
        assert_eq!(names(BOTH, None), ["redis", "sprint"]);
        assert_eq!(names(BOTH, Some("b")), ["redis", "sprint-b"]);
        let by_chance = names(BOTH, Some(""));
        assert!(by_chance[1].starts_with("sprint-") && by_chance[1].len() == 12, "{by_chance:?}");
        assert_ne!(by_chance, names(BOTH, Some("")), "the next time it is another");
    }

    #[test]
    fn a_generated_name_begins_as_it_was_declared() {
        let generated = names(&BOTH.replace("name: sprint", "generateName: sprint-"), None);
        assert!(generated[1].starts_with("sprint-") && generated[1].len() == 12, "{generated:?}");
    }

    #[test]
    fn documents_of_one_generated_name_get_different_ones() {
        let one =
            "apiVersion: dragstrip.dev/v1alpha1\nkind: BenchmarkRun\nmetadata: {generateName: sprint-}\n";
        let all = names(&[one; 100].join("---\n"), None);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 100, "{all:?}");
    }

    /// A sound run called `name`, whose metadata has `more`.
    fn sprint(name: &str, more: &str) -> String {
        format!(
            "apiVersion: dragstrip.dev/v1alpha1\nkind: BenchmarkRun\nmetadata:\n  name: {name}\n{more}spec: {{target: {{datastoreRef: {{name: redis}}}}, phases: [{{name: read, loadgen: {{duration: 5s}}}}]}}\n---\n"
        )
    }

    fn judged(text: &str) -> Judged {
        let judged = judge(parse("a.yaml", text).unwrap()).unwrap();
        assert!(!judged.refused(), "{:?}", judged.remarks);
        judged
    }

    fn applied(text: &str) -> Vec<Applied> {
        judged(text).objects.iter().map(|(document, object)| Applied::of(document, object)).collect()
    }

    #[test]
    fn a_manifest_of_another_namespace_than_the_one_that_is_asked_for_is_refused() {
        let lab = judged(&(sprint("a", "  namespace: lab\n") + &sprint("b", "")));
        assert!(misplaced(&lab, None).is_empty() && misplaced(&lab, Some("lab")).is_empty());
        let told: Vec<String> = misplaced(&lab, Some("races")).iter().map(Remark::to_string).collect();
        assert_eq!(
            told,
            [
                "a.yaml:5:3: error: BenchmarkRun a: metadata.namespace: is lab, and --namespace is races: leave one of the two out"
            ]
        );
    }

    #[test]
    fn what_is_watched_ends_and_is_in_one_namespace() {
        let place = |text: &str| {
            watched(&applied(text), "races").map(str::to_owned).map_err(|error| error.to_string())
        };
        assert_eq!(place(&sprint("a", "")), Ok("races".to_owned()));
        assert_eq!(place(&sprint("a", "  namespace: lab\n")), Ok("lab".to_owned()));
        let several = place(&(sprint("a", "") + &sprint("b", "  namespace: lab\n")));
        assert!(several.is_err_and(|error| error.contains("are in lab and races")));
        let datastore = "apiVersion: dragstrip.dev/v1alpha1\nkind: Datastore\nmetadata: {name: redis}\nspec: {engine: Redis, threads: 1}\n";
        assert!(place(datastore).is_err_and(|error| error.contains("leave --watch out")));
        let nightly = include_str!("../../examples/suite-schedule.yaml");
        assert!(
            place(nightly).is_err_and(|error| error.contains("suite/nightly makes rounds by its schedule"))
        );
    }

    #[test]
    fn what_the_apiserver_gave_an_object_is_not_given_back() {
        let more = "  uid: u\n  resourceVersion: \"7\"\n  labels: {team: cache}\n";
        let value = &applied(&sprint("a", more))[0].value;
        assert_eq!(value["metadata"], serde_json::json!({"name": "a", "labels": {"team": "cache"}}));
    }
}
