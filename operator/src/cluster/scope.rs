//! Where in the cluster the operator works: everywhere, or in some namespaces alone. Pure,
//! but for the client that it makes APIs of.

use kube::{Api, Client, Resource, core::NamespaceResourceScope};
use std::collections::BTreeSet;

/// The namespaces that are watched; all where none is named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope(BTreeSet<String>);

impl Scope {
    /// Of these namespaces; of all where there are none.
    pub fn new(namespaces: impl IntoIterator<Item = String>) -> Self {
        Self(namespaces.into_iter().filter(|name| !name.is_empty()).collect())
    }

    /// The same with one namespace more, where not all are watched anyway.
    #[must_use]
    pub fn and(&self, namespace: &str) -> Self {
        let more = Some(namespace.to_owned()).filter(|_| !self.0.is_empty());
        Self(self.0.iter().cloned().chain(more).collect())
    }

    /// Whether objects of `namespace` are watched.
    pub fn includes(&self, namespace: &str) -> bool {
        self.0.is_empty() || self.0.contains(namespace)
    }

    /// What has to be asked to know all objects of a kind: one API for all namespaces, or
    /// one for each, with its name.
    pub fn apis<K>(&self, client: &Client) -> Vec<(Option<String>, Api<K>)>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        if self.0.is_empty() {
            return vec![(None, Api::all(client.clone()))];
        }
        let of = |name: &String| (Some(name.clone()), Api::namespaced(client.clone(), name));
        self.0.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_names_all_namespaces_are_watched() {
        let all = Scope::new([String::new()]);
        assert!(all.includes("races") && all.and("dragstrip-system").includes("races"));
    }

    #[test]
    fn with_names_only_those_are_watched() {
        let some = Scope::new(["races".to_owned(), "races".to_owned(), "pits".to_owned()]);
        assert!(some.includes("pits") && !some.includes("dragstrip-system"));
        assert!(some.and("dragstrip-system").includes("dragstrip-system"));
    }
}
