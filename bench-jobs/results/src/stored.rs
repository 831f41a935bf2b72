//! A repetition's result as the cluster keeps it: gzipped JSON in a ConfigMap,
//! and in further ones where it is too large for one. Pure.

use crate::result::RepetitionResult;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use std::io::{Read, Write};

/// Key of the gzipped JSON, or of its part.
pub const KEY: &str = "result.json.gz";
/// Annotation on the first ConfigMap: how many hold the result together; absent when it is the only one.
pub const PARTS: &str = "dragstrip.dev/result-parts";
/// Label on each further ConfigMap: which part it holds, from 2.
pub const PART: &str = "dragstrip.dev/result-part";
/// Bytes of one part. The apiserver refuses a ConfigMap of more than 1 MiB of
/// data (`MaxSecretSize` in its validation).
pub const MAXIMUM_PART_BYTES: usize = 1_000_000;

/// A result could not be packed or unpacked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It could not be written as JSON.
    #[error("failed to write the result as JSON")]
    Encode(#[source] serde_json::Error),
    /// It could not be compressed.
    #[error("failed to compress the result")]
    Compress(#[source] std::io::Error),
    /// A ConfigMap of it is missing, or holds nothing of it.
    #[error("ConfigMap {0}, which must hold the result or a part of it, is not there or has no {KEY}")]
    Absent(String),
    /// It is no gzip, or cut short.
    #[error("failed to decompress the result")]
    Decompress(#[source] std::io::Error),
    /// It is not the JSON of a result.
    #[error("failed to read the result's JSON")]
    Decode(#[source] serde_json::Error),
}

/// The parts of a result, in order: one at least, each of [`MAXIMUM_PART_BYTES`] at most.
pub fn pack(result: &RepetitionResult) -> Result<Vec<Vec<u8>>, Error> {
    let json = serde_json::to_vec(result).map_err(Error::Encode)?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&json).map_err(Error::Compress)?;
    let bytes = encoder.finish().map_err(Error::Compress)?;
    Ok(bytes.chunks(MAXIMUM_PART_BYTES).map(<[u8]>::to_vec).collect())
}

/// Name of the ConfigMap that holds part `number`, from 1, of the result called
/// `name`. The dot keeps it apart from other results: no phase has one in its name.
pub fn part_name(name: &str, number: usize) -> String {
    if number == 1 { name.to_owned() } else { format!("{name}.part-{number}") }
}

/// Whether `config_map` holds a later part of a result.
pub fn is_later_part(config_map: &ConfigMap) -> bool {
    config_map.labels().contains_key(PART)
}

/// Names of the ConfigMaps that hold the rest of the result that begins in `first`.
pub fn later_parts(first: &ConfigMap) -> Vec<String> {
    let parts = first.annotations().get(PARTS).and_then(|parts| parts.parse().ok()).unwrap_or(1);
    (2..=parts).map(|number| part_name(&first.name_any(), number)).collect()
}

/// The result that begins in `first`, whose later parts `find` gives by name.
pub fn unpack<'a>(
    first: &'a ConfigMap,
    find: impl Fn(&str) -> Option<&'a ConfigMap>,
) -> Result<RepetitionResult, Error> {
    let mut bytes = part_of(Some(first), &first.name_any())?.to_vec();
    for name in later_parts(first) {
        bytes.extend_from_slice(part_of(find(&name), &name)?);
    }
    let mut json = Vec::new();
    GzDecoder::new(bytes.as_slice()).read_to_end(&mut json).map_err(Error::Decompress)?;
    serde_json::from_slice(&json).map_err(Error::Decode)
}

fn part_of<'a>(config_map: Option<&'a ConfigMap>, name: &str) -> Result<&'a [u8], Error> {
    let part = config_map.and_then(|map| map.binary_data.as_ref()?.get(KEY));
    part.map(|bytes| bytes.0.as_slice()).ok_or_else(|| Error::Absent(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::ByteString;

    fn stored(parts: Vec<Vec<u8>>) -> Vec<ConfigMap> {
        let count = parts.len();
        let held = parts.into_iter().enumerate().map(|(index, part)| {
            let mut map = ConfigMap::default();
            map.metadata.name = Some(part_name("run-read-1", index + 1));
            if index == 0 && count > 1 {
                map.annotations_mut().insert(PARTS.to_owned(), count.to_string());
            }
            map.binary_data = Some([(KEY.to_owned(), ByteString(part))].into());
            map
        });
        held.collect()
    }

    fn read(maps: &[ConfigMap]) -> Result<RepetitionResult, Error> {
        unpack(&maps[0], |name| maps.iter().find(|map| map.name_any() == name))
    }

    /// A result of so many lines that do not compress.
    fn result(lines: u64) -> RepetitionResult {
        let mut result: RepetitionResult =
            serde_json::from_str(include_str!("../tests/two-pods.json")).unwrap();
        let mut state = 1_u64;
        result.pods[0].operations[0].per_second = (0..lines)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state
            })
            .collect();
        result
    }

    #[test]
    fn a_result_is_read_as_it_was_stored_and_half_of_it_not_at_all() {
        let small = result(3);
        let mut maps = stored(pack(&small).unwrap());
        assert_eq!(maps.len(), 1);
        assert_eq!(read(&maps).unwrap(), small);
        let bytes = &mut maps[0].binary_data.as_mut().unwrap().get_mut(KEY).unwrap().0;
        bytes.truncate(bytes.len() / 2);
        assert!(matches!(read(&maps), Err(Error::Decompress(_))));
    }

    #[test]
    fn a_result_too_large_for_one_config_map_is_whole_in_several_and_missed_when_one_is_gone() {
        let large = result(250_000);
        let mut maps = stored(pack(&large).unwrap());
        assert!(maps.len() > 2, "only {} parts", maps.len());
        assert!(maps.iter().all(|map| map.binary_data.as_ref().unwrap()[KEY].0.len() <= MAXIMUM_PART_BYTES));
        assert_eq!(read(&maps).unwrap(), large);
        maps.remove(1);
        let error = read(&maps).unwrap_err().to_string();
        assert!(error.contains("ConfigMap run-read-1.part-2"), "{error}");
    }
}
