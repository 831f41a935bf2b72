//! Values stored in parts, each in a ConfigMap. Pure.

use dragstrip_results::stored;
use k8s_openapi::{ByteString, api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::ResourceExt;
use std::collections::BTreeMap;

/// The ConfigMaps that hold `parts` of one stored value under `key`, in the sequence in which they
/// must be created. The first part, which has the name of `metadata` and its annotations, comes last,
/// since the value counts as stored when that one exists. Parts that an operator left that was
/// stopped in between have other names, and are deleted with their owner.
pub fn config_maps(metadata: &ObjectMeta, key: &str, parts: Vec<Vec<u8>>) -> Vec<ConfigMap> {
    let (name, marks) = (metadata.name.clone().unwrap_or_default(), metadata.annotations.clone());
    let marks: BTreeMap<String, String> = marks.unwrap_or_default();
    let maps = parts.into_iter().enumerate().map(|(index, part)| {
        let mut map = ConfigMap {
            metadata: metadata.clone(),
            binary_data: Some([(key.to_owned(), ByteString(part))].into()),
            immutable: Some(true),
            ..ConfigMap::default()
        };
        if index > 0 {
            map.metadata.name = Some(stored::part_name(&name, index + 1, &marks));
            map.metadata.annotations = None;
            map.labels_mut().insert(stored::PART.to_owned(), (index + 1).to_string());
        }
        map
    });
    maps.rev().collect()
}
