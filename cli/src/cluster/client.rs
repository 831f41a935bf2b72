//! The cluster and namespace of a command, and the objects it names. Needs the client.

use crate::manifests::kind::Kind;
use clap::Args;
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, Datastore, near::did_you_mean};
use kube::{
    Api, Client, Config, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
    config::{InferConfigError, KubeConfigOptions, KubeconfigError},
    core::NamespaceResourceScope,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{fmt::Debug, time::Duration};

const CONNECT_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Default, Args)]
#[group(id = "cluster")]
pub struct Options {
    /// Use this namespace instead of the context's.
    #[arg(short, long, global = true)]
    pub namespace: Option<String>,
    /// Use this context of the kubeconfig instead of the current one.
    #[arg(long, global = true)]
    pub context: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to find a cluster: there is no readable kubeconfig (KUBECONFIG, ~/.kube/config)")]
    Infer(#[source] InferConfigError),
    #[error("failed to use context {1} of the kubeconfig")]
    Context(#[source] Box<KubeconfigError>, String),
    #[error("failed to make a Kubernetes client")]
    Client(#[source] Box<kube::Error>),
    #[error("failed to read {1}")]
    Read(#[source] Box<kube::Error>, String),
    #[error("there is no {kinds} {name} in namespace {namespace}{hint}")]
    Absent { kinds: &'static str, name: String, namespace: String, hint: String },
    #[error("there are a run and a suite called {0}: use run/{0} or suite/{0}")]
    Ambiguous(String),
    #[error("{0} is named twice: name each once")]
    Twice(String),
    #[error("unknown kind {0:?}: use run or suite")]
    Kind(String),
}

impl Error {
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Read(error, _) if forbidden(error))
    }
}

/// Whether the API server does not allow this account to do it.
pub fn forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_forbidden())
}

/// A name as it was given on the command line: with its kind, or without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub kind: Option<Kind>,
    pub name: String,
}

impl Given {
    /// `text`, which is NAME or KIND/NAME; `kind` applies to the former.
    pub fn parse(text: &str, kind: Option<Kind>) -> Result<Self, Error> {
        let Some((prefix, name)) = text.split_once('/') else {
            return Ok(Self { kind, name: text.to_owned() });
        };
        let kind = Kind::parse(prefix).ok_or_else(|| Error::Kind(prefix.to_owned()))?;
        Ok(Self { kind: Some(kind), name: name.to_owned() })
    }
}

/// The names in `words`, the first of which may be their kind: `run a b`, `a b`, `suite/a`.
fn given(words: &[String]) -> Result<Vec<Given>, Error> {
    let kind = words.first().filter(|_| words.len() > 1).and_then(|first| Kind::parse(first));
    words.iter().skip(usize::from(kind.is_some())).map(|word| Given::parse(word, kind)).collect()
}

#[derive(Debug, Clone)]
pub enum Subject {
    Run(Box<BenchmarkRun>),
    Suite(Box<BenchmarkSuite>),
}

impl Subject {
    /// Its kind and name, as people write them.
    pub fn title(&self) -> String {
        format!("{}/{}", self.kind().singular(), self.name())
    }

    pub fn kind(&self) -> Kind {
        match self {
            Self::Run(_) => Kind::Run,
            Self::Suite(_) => Kind::Suite,
        }
    }

    pub fn name(&self) -> String {
        match self {
            Self::Run(run) => run.name_any(),
            Self::Suite(suite) => suite.name_any(),
        }
    }

    pub fn final_phase(&self) -> Option<String> {
        match self {
            Self::Run(run) => {
                let phase = run.status.as_ref()?.phase;
                phase.finished().then(|| phase.to_string())
            }
            Self::Suite(suite) => {
                let phase = suite.status.as_ref()?.phase;
                phase.finished().then(|| phase.to_string())
            }
        }
    }
}

/// A kind of objects in namespaces.
pub trait Object:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned
{
}

impl<K> Object for K where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned
{
}

/// Where a command works.
#[derive(Clone)]
pub struct Cluster {
    pub client: Client,
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

    /// The same cluster in another namespace.
    pub fn within(&self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), client: self.client.clone() }
    }

    pub fn api<K: Object>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Changes the object of this `kind` and `name`.
    pub async fn patch(
        &self,
        (kind, name): (Kind, &str),
        parameters: &PatchParams,
        patch: &Patch<&Value>,
    ) -> kube::Result<()> {
        let resource = match kind {
            Kind::Datastore => ApiResource::erase::<Datastore>(&()),
            Kind::Run => ApiResource::erase::<BenchmarkRun>(&()),
            Kind::Suite => ApiResource::erase::<BenchmarkSuite>(&()),
        };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        api.patch(name, parameters, patch).await.map(drop)
    }

    /// The object called `name`; `None` if there is none, or if its kind is not served.
    pub async fn find<K: Object>(&self, name: &str) -> Result<Option<K>, Error> {
        let title = || format!("{} {name}", K::kind(&()));
        self.api::<K>().get_opt(name).await.map_err(|error| Error::Read(Box::new(error), title()))
    }

    /// The run or suite called `name`.
    pub async fn find_subject(&self, kind: Kind, name: &str) -> Result<Option<Subject>, Error> {
        Ok(match kind {
            Kind::Run => self.find(name).await?.map(|run| Subject::Run(Box::new(run))),
            Kind::Suite => self.find(name).await?.map(|suite| Subject::Suite(Box::new(suite))),
            Kind::Datastore => None,
        })
    }

    /// The names of all objects of `K` in the namespace; none if they cannot be listed.
    async fn names<K: Object>(&self) -> Vec<String> {
        // Without names to propose the error is still right.
        let list = self.api::<K>().list_metadata(&ListParams::default()).await;
        list.map(|list| list.items.iter().map(ResourceExt::name_any).collect()).unwrap_or_default()
    }

    fn absent(&self, kinds: &'static str, name: &str, names: &[String]) -> Error {
        let hint = did_you_mean(name, names.iter().map(String::as_str));
        Error::Absent { kinds, name: name.to_owned(), namespace: self.namespace.clone(), hint }
    }

    /// The object called `name`, which must exist; messages call its kind `kinds`.
    pub async fn get<K: Object>(&self, kinds: &'static str, name: &str) -> Result<K, Error> {
        match self.find(name).await? {
            Some(object) => Ok(object),
            None => Err(self.absent(kinds, name, &self.names::<K>().await)),
        }
    }

    /// The run or suite that `given` names, which must exist.
    pub async fn subject(&self, given: &Given) -> Result<Subject, Error> {
        let name = &given.name;
        let kinds: Vec<Kind> = [Kind::Run, Kind::Suite]
            .into_iter()
            .filter(|kind| given.kind.is_none_or(|one| one == *kind))
            .collect();
        let (mut found, mut failed) = (Vec::new(), None);
        for kind in &kinds {
            match self.find_subject(*kind, name).await {
                Ok(subject) => found.extend(subject),
                // An account that may see runs alone means a run.
                Err(error) if error.is_forbidden() => failed = Some(error),
                Err(error) => return Err(error),
            }
        }
        match (found.len(), found.pop(), failed) {
            (1, Some(subject), _) => Ok(subject),
            (_, Some(_), _) => Err(Error::Ambiguous(name.clone())),
            (_, None, Some(error)) => Err(error),
            (_, None, None) => {
                let mut names = Vec::new();
                for kind in &kinds {
                    names.extend(match kind {
                        Kind::Run => self.names::<BenchmarkRun>().await,
                        _ => self.names::<BenchmarkSuite>().await,
                    });
                }
                Err(self.absent(given.kind.map_or("run or suite", Kind::singular), name, &names))
            }
        }
    }

    /// All runs and suites that `words` name, in their order.
    pub async fn subjects(&self, words: &[String]) -> Result<Vec<Subject>, Error> {
        let mut found: Vec<Subject> = Vec::new();
        for one in given(words)? {
            let subject = self.subject(&one).await?;
            // Side by side with itself, a run would have twice its measurements.
            if found.iter().any(|other| other.title() == subject.title()) {
                return Err(Error::Twice(subject.title()));
            }
            found.push(subject);
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
        assert!(given(&["pod/a".to_owned()]).is_err(), "a pod is neither a run nor a suite");
    }
}
