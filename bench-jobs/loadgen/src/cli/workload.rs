//! Options that say which operations are sent.

use std::num::NonZeroU32;

use clap::Args;

use super::ArgumentError;
use crate::configuration::{Configuration, Limit};
use crate::wire::slots::hashtag;
use crate::workload::mix::{Cycle, MAXIMUM_CYCLE};
use crate::workload::operations::{OperationKind, OperationSpec};

/// Fewest EXISTS in a batch of `--verify-keys`.
const VERIFY_PIPELINE: usize = 100;

/// Which operations are sent.
#[derive(Debug, Args)]
pub struct WorkloadArguments {
    /// One operation of a mix; may be given several times, instead of --ratio.
    ///
    /// Words separated by blanks: set, get, incr, mset, mget, del, exists or mset-expireat (an MSET
    /// with an EXPIREAT for each of its keys, sent together), and options: weight=N (its share of
    /// the requests, spread evenly), keys=N (keys of each command of mset, mget, del, exists and
    /// mset-expireat), expiry=SECONDS (of set and mset-expireat, instead of --expiry-range), exat (set with an absolute expiry,
    /// computed for each item), missing (keys that are never written, for get, mget, del, exists),
    /// data-size=N (instead of --data-size). Or: weight=N command TEMPLATE, any command in which
    /// every __key__ becomes a drawn key and every __data__ a value; quotes group words.
    #[arg(long, value_name = "SPEC", conflicts_with = "ratio")]
    pub operation: Vec<OperationSpec>,
    /// Send no load but count with EXISTS which keys from --key-minimum to --key-maximum are there;
    /// exit code 13 when some are not.
    #[arg(long, conflicts_with_all = ["ratio", "operation", "rate", "warmup", "replica_reads"])]
    pub verify_keys: bool,
}

impl WorkloadArguments {
    /// What a run that only verifies keys sends.
    pub(super) fn verification() -> OperationSpec {
        OperationSpec::of(OperationKind::Exists, NonZeroU32::MIN)
    }
}

/// Verification divides the keys over all connections; none may be left without.
pub(super) fn fit_verification(configuration: &mut Configuration) {
    if !configuration.verify_keys {
        return;
    }
    let keys = configuration.keys.maximum.saturating_sub(configuration.keys.minimum).saturating_add(1);
    let keys = usize::try_from(keys).unwrap_or(usize::MAX);
    configuration.threads = configuration.threads.min(keys);
    configuration.connections_per_thread =
        configuration.connections_per_thread.min(keys / configuration.threads.max(1));
    configuration.pipeline = configuration.pipeline.max(VERIFY_PIPELINE);
}

/// What the operations of a mix demand of the other options.
pub(super) fn check_mix(configuration: &Configuration) -> Result<(), ArgumentError> {
    let mix = configuration.mix();
    let weights: Vec<u64> = mix.iter().map(|operation| u64::from(operation.weight.get())).collect();
    if !configuration.operations.is_empty() && Cycle::spread_length(&weights) > MAXIMUM_CYCLE {
        return Err(ArgumentError::UnlikeWeights);
    }
    for operation in &mix {
        let expires = operation.absolute_expiry || operation.kind == OperationKind::MsetExpireAt;
        if expires
            && operation.expiry_seconds.or(configuration.data.expiry_seconds.map(|range| range.0)).is_none()
        {
            return Err(ArgumentError::MissingExpiry { operation: operation.to_string() });
        }
        if configuration.cluster
            && operation.keys_per_command() > 1
            && hashtag(configuration.keys.prefix.as_bytes()).is_none()
        {
            return Err(ArgumentError::SeveralSlots { operation: operation.to_string() });
        }
        if configuration.replica_reads && !operation.kind.is_read() {
            return Err(ArgumentError::ReplicaWrite { operation: operation.to_string() });
        }
    }
    let unequal = mix.windows(2).any(|pair| match pair {
        [one, other] => one.keys_per_command() != other.keys_per_command(),
        _ => false,
    });
    let keyless = mix.iter().any(|operation| operation.keys_per_command() == 0);
    if configuration.limit == Limit::AllKeys && (unequal || keyless) {
        return Err(ArgumentError::UnevenPass);
    }
    Ok(())
}
