//! Where in the cluster the operator works.

use kube::{Api, Client, Resource, core::NamespaceResourceScope};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Scope {
    #[default]
    Cluster,
    /// One, the operator's own.
    Namespace(String),
}

impl Scope {
    pub fn includes(&self, namespace: &str) -> bool {
        match self {
            Self::Cluster => true,
            Self::Namespace(own) => own == namespace,
        }
    }

    /// An API for all objects of a kind that the operator watches.
    pub fn api<K>(&self, client: &Client) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match self {
            Self::Cluster => Api::all(client.clone()),
            Self::Namespace(own) => Api::namespaced(client.clone(), own),
        }
    }
}
