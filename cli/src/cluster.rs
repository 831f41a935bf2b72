//! The cluster and namespace that a command works in, and the objects that it names. Needs
//! the client.

use crate::causes::forbidden;
use clap::Args;
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, near::near};
use kube::{
    Api, Client, Config, Resource, ResourceExt,
    api::ListParams,
    config::{InferConfigError, KubeConfigOptions, KubeconfigError},
    core::NamespaceResourceScope,
};
use serde::de::DeserializeOwned;
use std::{fmt::Debug, time::Duration};

/// How long the apiserver may take to take a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Which cluster and namespace.
#[derive(Debug, Clone, Default, Args)]
#[group(id = "cluster")]
pub struct Options {
    /// Namespace of the objects; the context's when absent.
    #[arg(short, long, global = true)]
    pub namespace: Option<String>,
    /// Context of the kubeconfig; the current one when absent.
    #[arg(long, global = true)]
    pub context: Option<String>,
}

/// Something in the cluster could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no way to a cluster.
    #[error("failed to find a cluster: there is no readable kubeconfig (KUBECONFIG, ~/.kube/config)")]
    Infer(#[source] InferConfigError),
    /// There is no such context.
    #[error("failed to use context {1} of the kubeconfig")]
    Context(#[source] Box<KubeconfigError>, String),
    /// The client could not be made.
    #[error("failed to make a Kubernetes client")]
    Client(#[source] Box<kube::Error>),
    /// An object could not be read.
    #[error("failed to read {1}")]
    Read(#[source] Box<kube::Error>, String),
    /// Objects could not be listed.
    #[error("failed to list {1}")]
    List(#[source] Box<kube::Error>, &'static str),
    /// There is no such object.
    #[error("there is no {kinds} {name} in namespace {namespace}{}", proposed(.near))]
    Absent {
        /// What was looked for.
        kinds: &'static str,
        /// Its name.
        name: String,
        /// Where.
        namespace: String,
        /// Names that look like it.
        near: Vec<String>,
    },
    /// There are two of that name.
    #[error("there are a run and a suite called {0}: say run/{0} or suite/{0}")]
    Ambiguous(String),
    /// The kind is none.
    #[error("{0} is none of run, suite and datastore")]
    Kind(String),
}

impl Error {
    /// Whether this account may not do it.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Read(error, _) | Self::List(error, _) if forbidden(error))
    }
}

fn proposed(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) }
}

/// A kind of the project's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// BenchmarkRun.
    Run,
    /// BenchmarkSuite.
    Suite,
    /// Datastore.
    Datastore,
}

impl Kind {
    /// The kind that people call `text`.
    pub fn of(text: &str) -> Result<Self, Error> {
        match text.to_lowercase().as_str() {
            "run" | "runs" | "benchmarkrun" | "benchmarkruns" => Ok(Self::Run),
            "suite" | "suites" | "benchmarksuite" | "benchmarksuites" => Ok(Self::Suite),
            "datastore" | "datastores" | "dst" | "ds" => Ok(Self::Datastore),
            _ => Err(Error::Kind(text.to_owned())),
        }
    }

    /// All of it, as the apiserver calls them.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Run => "benchmarkruns",
            Self::Suite => "benchmarksuites",
            Self::Datastore => "datastores",
        }
    }

    /// One of it, as names are written.
    pub fn singular(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Suite => "suite",
            Self::Datastore => "datastore",
        }
    }
}

/// A name as it was given: with its kind, or without.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Given {
    /// The kind, where it was said.
    pub kind: Option<Kind>,
    /// The name.
    pub name: String,
}

impl Given {
    /// `text`, which is NAME or KIND/NAME; all are of `kind` where it is said.
    pub fn of(text: &str, kind: Option<Kind>) -> Result<Self, Error> {
        match text.split_once('/') {
            Some((said, name)) => Ok(Self { kind: Some(Kind::of(said)?), name: name.to_owned() }),
            None => Ok(Self { kind, name: text.to_owned() }),
        }
    }
}

/// The names of `words`, of which the first may say their kind: `run a b`, `a b`, `suite/a`.
pub fn given(words: &[String]) -> Result<Vec<Given>, Error> {
    let kind = words.first().filter(|_| words.len() > 1).and_then(|first| Kind::of(first).ok());
    words.iter().skip(usize::from(kind.is_some())).map(|word| Given::of(word, kind)).collect()
}

/// A run or a suite.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A run.
    Run(Box<BenchmarkRun>),
    /// A suite.
    Suite(Box<BenchmarkSuite>),
}

impl Subject {
    /// Its kind and name, as they are written.
    pub fn title(&self) -> String {
        format!("{}/{}", self.kind().singular(), self.name())
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Run(_) => Kind::Run,
            Self::Suite(_) => Kind::Suite,
        }
    }

    /// Its name.
    pub fn name(&self) -> String {
        match self {
            Self::Run(run) => run.name_any(),
            Self::Suite(suite) => suite.name_any(),
        }
    }
}

/// Where a command works.
#[derive(Clone)]
pub struct Cluster {
    /// The client.
    pub client: Client,
    /// The namespace of what is named.
    pub namespace: String,
}

impl Cluster {
    /// The cluster of the kubeconfig, or in a pod that of its ServiceAccount.
    pub async fn connect(options: &Options) -> Result<Self, Error> {
        let mut config = match &options.context {
            None => Config::infer().await.map_err(Error::Infer)?,
            Some(context) => {
                let chosen =
                    KubeConfigOptions { context: Some(context.clone()), ..KubeConfigOptions::default() };
                let config = Config::from_kubeconfig(&chosen).await;
                config.map_err(|error| Error::Context(Box::new(error), context.clone()))?
            }
        };
        config.connect_timeout = Some(CONNECT_WITHIN);
        let namespace = options.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(|error| Error::Client(Box::new(error)))?;
        Ok(Self { client, namespace })
    }

    /// Objects of `K` in the namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The object called `name`; `None` where there is none, or its kind is not served.
    pub async fn find<K>(&self, name: &str) -> Result<Option<K>, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let title = || format!("{} {name}", K::kind(&()));
        self.api::<K>().get_opt(name).await.map_err(|error| Error::Read(Box::new(error), title()))
    }

    /// The names of all objects of `K` in the namespace; none where the kind is not served.
    pub async fn names<K>(&self) -> Result<Vec<String>, Error>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        match self.api::<K>().list_metadata(&ListParams::default()).await {
            Ok(list) => Ok(list.items.iter().map(ResourceExt::name_any).collect()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            Err(error) => Err(Error::List(Box::new(error), "the names of what there is")),
        }
    }

    /// That there is no `kinds` called `name`, with the names of `known` that look like it.
    pub fn absent(&self, kinds: &'static str, name: &str, known: &[String]) -> Error {
        let near = near(name, known.iter().map(String::as_str));
        let near = near.into_iter().map(str::to_owned).collect();
        Error::Absent { kinds, name: name.to_owned(), namespace: self.namespace.clone(), near }
    }

    /// The run or suite that is meant. One that is not there is told at once.
    pub async fn subject(&self, given: &Given) -> Result<Subject, Error> {
        let name = &given.name;
        let of = |kind: Kind| given.kind.is_none_or(|said| said == kind);
        let run = if of(Kind::Run) { self.find::<BenchmarkRun>(name).await } else { Ok(None) };
        let suite = if of(Kind::Suite) { self.find::<BenchmarkSuite>(name).await } else { Ok(None) };
        match (run, suite) {
            (Ok(Some(_)), Ok(Some(_))) => return Err(Error::Ambiguous(name.clone())),
            (Ok(Some(run)), Ok(None)) => return Ok(Subject::Run(Box::new(run))),
            (Ok(None), Ok(Some(suite))) => return Ok(Subject::Suite(Box::new(suite))),
            // Who may not see the other kind means the one that is there.
            (Ok(Some(run)), Err(error)) if error.is_forbidden() => return Ok(Subject::Run(Box::new(run))),
            (Err(error), Ok(Some(suite))) if error.is_forbidden() => {
                return Ok(Subject::Suite(Box::new(suite)));
            }
            (Err(error), _) | (_, Err(error)) => return Err(error),
            (Ok(None), Ok(None)) => {}
        }
        // Names that cannot be listed are not proposed.
        let mut known = Vec::new();
        if of(Kind::Run) {
            known.extend(self.names::<BenchmarkRun>().await.unwrap_or_default());
        }
        if of(Kind::Suite) {
            known.extend(self.names::<BenchmarkSuite>().await.unwrap_or_default());
        }
        let kinds = given.kind.map_or("run or suite", Kind::singular);
        Err(self.absent(kinds, name, &known))
    }

    /// All that are meant, in their order.
    pub async fn subjects(&self, given: &[Given]) -> Result<Vec<Subject>, Error> {
        let mut found = Vec::new();
        for one in given {
            found.push(self.subject(one).await?);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Given> {
        given(&text.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_kind_may_stand_before_all_names_or_in_each_or_nowhere() {
        let of = |kind, name: &str| Given { kind, name: name.to_owned() };
        assert_eq!(words("a b"), [of(None, "a"), of(None, "b")]);
        assert_eq!(words("runs a b"), [of(Some(Kind::Run), "a"), of(Some(Kind::Run), "b")]);
        assert_eq!(words("suite/a b"), [of(Some(Kind::Suite), "a"), of(None, "b")]);
        assert_eq!(words("run"), [of(None, "run")], "one word is a name");
        assert!(given(&["pod/a".to_owned()]).is_err(), "pods are nobody's subject");
    }

    #[test]
    fn a_name_that_is_not_there_is_told_with_those_that_look_like_it() {
        let error = Error::Absent {
            kinds: "run",
            name: "quickstrat".into(),
            namespace: "races".into(),
            near: vec!["quickstart".into()],
        };
        assert_eq!(
            error.to_string(),
            "there is no run quickstrat in namespace races; did you mean quickstart?"
        );
    }
}
