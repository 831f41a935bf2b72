//! Finds what a load generator cannot do from its declaration alone. Pure.

use super::{Client, LoadgenOperation, LoadgenSpec, OperationName};
use crate::units::Period;

/// Longest repeating sequence of a mix, in requests.
const MAXIMUM_CYCLE: u64 = 100_000;

impl LoadgenSpec {
    /// Why this load cannot run, or not on a `cluster`: field, from `loadgen` on, and remedy. None if it can run.
    pub fn problem(&self, cluster: bool) -> Option<String> {
        if self.rate.is_some() && self.pipeline != 1 {
            let problem = "loadgen.rate sends each request at its own time: leave loadgen.pipeline at 1";
            return Some(problem.to_owned());
        }
        if self.client != Client::Raw && (self.data_size_maximum.is_some() || self.compressibility.is_some())
        {
            let problem = "loadgen.dataSizeMaximum and loadgen.compressibility are for loadgen.client Raw";
            return Some(format!("{problem}: leave them out, or measure without a client library"));
        }
        let of_expiry = || self.expiry_problem().or_else(|| self.keys_problem());
        if let Some(problem) = self.on_miss_problem().or_else(of_expiry) {
            return Some(problem);
        }
        if self.library.is_some() && self.batch.is_none() {
            return self.library_operation().err();
        }
        if let Some(problem) =
            self.operations.iter().find_map(without_expiry).or_else(|| self.unlike_weights())
        {
            return Some(problem);
        }
        self.replica_problem(cluster).or_else(|| self.cluster_problem().filter(|_| cluster))
    }

    fn on_miss_problem(&self) -> Option<String> {
        self.on_miss?;
        let get = |operation: &LoadgenOperation| operation.operation == Some(OperationName::Get);
        let problem = if self.client != Client::Raw {
            "loadgen.onMiss is for loadgen.client Raw: leave it out, or measure without a client library"
        } else if self.replica_reads {
            "loadgen.onMiss writes, which replicas refuse: leave out onMiss or loadgen.replicaReads"
        } else if !(self.operations.iter().any(get) || self.operations.is_empty() && self.of_ratio().1) {
            "loadgen.onMiss writes the keys that GETs miss, and this load has no GET: give loadgen.ratio some, \
             such as 0:1, or add the operation Get"
        } else {
            let place = self.operations.iter().position(|operation| get(operation) && operation.missing)?;
            return Some(format!(
                "loadgen.operations[{place}] reads keys that nobody writes (missing), and loadgen.onMiss would write \
                 them: leave out one of the two"
            ));
        };
        Some(problem.to_owned())
    }

    fn expiry_problem(&self) -> Option<String> {
        let sets = self.operations.is_empty() && self.library.is_none() && self.of_ratio().0;
        if self.expiry.is_some() && !sets && self.on_miss.is_none() {
            let problem = "loadgen.expiry is of the SETs of loadgen.ratio and loadgen.onMiss, and this load has \
                none: leave it out, or give the entries of loadgen.operations an expiry";
            return Some(problem.to_owned());
        }
        let spans = self.operations.iter().map(|operation| (&operation.expiry, &operation.expiry_maximum));
        let unfit = spans.chain([(&self.expiry, &self.expiry_maximum)]).any(|(least, most)| {
            let duration = |period: &Option<Period>| period.as_ref().map(Period::duration);
            most.is_some() && duration(least).is_none_or(|least| Some(least) > duration(most))
        });
        let problem = "loadgen: an expiryMaximum needs an expiry that is not above it, such as expiry 60s and \
            expiryMaximum 120s";
        unfit.then(|| problem.to_owned())
    }

    fn keys_problem(&self) -> Option<String> {
        self.operations.iter().enumerate().find_map(|(place, operation)| {
            let first = operation.key_minimum.unwrap_or(self.key_minimum);
            let mut words = operation.command.iter().flat_map(|command| command.split_whitespace().skip(1));
            let problem = if operation.has_own_keys() && keys_of(operation) == 0 {
                "has key fields, but no __key__ in its command: write it there, or leave them out"
            } else if first > operation.key_maximum.unwrap_or(self.key_maximum) {
                "has a keyMaximum below its keyMinimum; either defaults to that of loadgen"
            } else if operation.expiry.is_some()
                && operation.operation.is_none()
                && words.next() != Some("__key__")
            {
                "has an expiry, which is that of its command's first argument: write __key__ there"
            } else {
                return None;
            };
            Some(format!("loadgen.operations[{place}] {problem}"))
        })
    }

    /// Whether the ratio has SETs, and whether it has GETs.
    fn of_ratio(&self) -> (bool, bool) {
        let shares = self.ratio.split_once(':');
        shares.map_or((false, false), |(sets, gets)| (!nothing(sets), !nothing(gets)))
    }

    fn replica_problem(&self, cluster: bool) -> Option<String> {
        if !self.replica_reads {
            return None;
        }
        if !cluster {
            return Some("loadgen.replicaReads needs a target in cluster mode: leave it out".to_owned());
        }
        let write = self.first_write()?;
        Some(format!(
            "loadgen.replicaReads sends the load to replicas, which refuse {write}: read only (ratio 0:1, or \
             the operations Get, Mget and Exists), and write in a phase of its own"
        ))
    }

    /// Connections that one client pod opens.
    pub fn connections(&self) -> u32 {
        match &self.library {
            Some(library) => library.pool_size.unsigned_abs(),
            None => self.threads.unsigned_abs().saturating_mul(self.connections_per_thread.unsigned_abs()),
        }
    }

    /// The first write of the generator's own load, which replicas refuse, with its field. A client
    /// library's writes go to primaries.
    fn first_write(&self) -> Option<String> {
        if self.library.is_some() {
            return None;
        }
        if self.operations.is_empty() {
            return self.of_ratio().0.then(|| format!("the SETs of loadgen.ratio {}", self.ratio));
        }
        let read = |name| matches!(name, OperationName::Get | OperationName::Mget | OperationName::Exists);
        let place = self.operations.iter().position(|operation| !operation.operation.is_some_and(read))?;
        let operation = &self.operations[place];
        let name =
            operation.operation.map_or_else(|| operation.command.clone(), |name| Some(format!("{name:?}")));
        Some(format!("loadgen.operations[{place}], {}", name.unwrap_or_default()))
    }

    fn cluster_problem(&self) -> Option<String> {
        let one_slot = |operation: &LoadgenOperation| {
            operation.key_prefix.as_deref().or(self.key_prefix.as_deref()).is_some_and(has_hashtag)
        };
        let mut operations = self.operations.iter();
        operations.position(|operation| keys_of(operation) > 1 && !one_slot(operation)).map(|place| {
            format!(
                "loadgen.operations[{place}] has several keys, which a cluster only accepts from one slot: use one \
                 key, or a keyPrefix with a {{hashtag}}, which puts all keys in one slot"
            )
        })
    }

    /// The shortest repeating sequence that keeps the weights must fit into memory.
    fn unlike_weights(&self) -> Option<String> {
        let weights = || self.operations.iter().map(|operation| u64::from(operation.weight.unsigned_abs()));
        let divisor = weights().fold(0, greatest_common_divisor).max(1);
        (weights().map(|weight| weight / divisor).sum::<u64>() > MAXIMUM_CYCLE).then(|| {
            "the weights of loadgen.operations repeat only after more than 100000 requests: use rounder ones"
                .to_owned()
        })
    }

    /// The one operation of a client library (`set`, `get` or `incr`): libraries are compared
    /// operation by operation. An error says why the load has no such operation.
    pub fn library_operation(&self) -> Result<&'static str, String> {
        match self.operations.as_slice() {
            [] => match self.of_ratio() {
                (true, false) => Ok("set"),
                (false, true) => Ok("get"),
                _ => Err(format!(
                    "loadgen.ratio {} mixes SET and GET, but a client library is measured with one operation: set \
                     ratio to 1:0 or 0:1, or name one operation in loadgen.operations",
                    self.ratio
                )),
            },
            [operation] => single_operation(operation),
            _ => Err(
                "loadgen.operations has several entries, but a client library is measured with one operation: give \
                 each a phase of its own"
                    .to_owned(),
            ),
        }
    }
}

impl LoadgenOperation {
    /// Whether it draws its keys by itself.
    pub fn has_own_keys(&self) -> bool {
        let numbers = self.key_minimum.or(self.key_maximum);
        self.key_prefix.is_some() || numbers.is_some() || self.key_pattern.is_some()
    }
}

fn greatest_common_divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

fn nothing(number: &str) -> bool {
    number.bytes().all(|digit| digit == b'0')
}

fn single_operation(operation: &LoadgenOperation) -> Result<&'static str, String> {
    let name = match operation.operation {
        _ if operation.has_own_keys() || operation.data_size.is_some() => None,
        Some(OperationName::Incr) => Some("incr"),
        Some(OperationName::Get) => Some("get"),
        Some(OperationName::Set) if operation.expiry.is_none() => Some("set"),
        _ => None,
    };
    name.ok_or_else(|| {
        "loadgen.operations of a client library must be Incr, Get, or Set without expiry, with the keys and \
         sizes of the load; for Mset, Mget and expiries use loadgen.batch"
            .to_owned()
    })
}

fn without_expiry(operation: &LoadgenOperation) -> Option<String> {
    let expires = operation.absolute_expiry || operation.operation == Some(OperationName::MsetExpireat);
    let problem = "loadgen.operations with absoluteExpiry, and MsetExpireat, need an expiry, such as 300s";
    (expires && operation.expiry.is_none()).then(|| problem.to_owned())
}

fn keys_of(operation: &LoadgenOperation) -> usize {
    match (&operation.operation, &operation.command) {
        (
            Some(
                OperationName::Mset
                | OperationName::Mget
                | OperationName::Del
                | OperationName::Exists
                | OperationName::MsetExpireat,
            ),
            _,
        ) => usize::try_from(operation.keys).unwrap_or(1),
        (None, Some(template)) => template.matches("__key__").count(),
        _ => 1,
    }
}

/// Whether all keys that begin with `text` are in one slot of a cluster.
fn has_hashtag(text: &str) -> bool {
    let inside = text.split_once('{').and_then(|(_, after)| after.split_once('}'));
    inside.is_some_and(|(tag, _)| !tag.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn problem(options: &Value, cluster: bool) -> String {
        let mut complete = json!({"duration": "5s"});
        for (name, value) in options.as_object().unwrap() {
            complete[name] = value.clone();
        }
        let spec: LoadgenSpec = serde_json::from_value(complete).unwrap();
        spec.problem(cluster).unwrap_or_default()
    }

    #[test]
    fn a_declaration_that_cannot_run_is_refused_with_the_remedy() {
        let several = json!([{"operation": "Mset", "keys": 10}]);
        let library = |operations: Value| json!({"client": "Fred", "library": {}, "operations": operations});
        for (options, cluster, reason) in [
            (json!({"client": "Fred", "library": {}, "ratio": "1:10"}), false, "ratio 1:10 mixes"),
            (library(json!([{"operation": "Mset"}])), false, "loadgen.batch"),
            (library(json!([{"operation": "Get"}, {"operation": "Incr"}])), false, "a phase of its own"),
            (json!({"rate": {"operationsPerSecond": 5}, "pipeline": 2}), false, "pipeline at 1"),
            (json!({"operations": [{"operation": "Set", "absoluteExpiry": true}]}), false, "need an expiry"),
            (json!({"operations": [{"operation": "MsetExpireat"}]}), false, "need an expiry"),
            (json!({"replicaReads": true}), false, "needs a target in cluster mode"),
            (json!({"replicaReads": true}), true, "which refuse the SETs of loadgen.ratio 1:10"),
            (
                json!({"replicaReads": true, "operations": [{"operation": "Get"}, {"operation": "Del"}]}),
                true,
                "loadgen.operations[1], Del",
            ),
            (
                json!({"replicaReads": true, "operations": [{"command": "HGET __key__ f"}]}),
                true,
                "loadgen.operations[0], HGET __key__ f",
            ),
            (json!({"operations": several}), true, "operations[0] has several keys"),
            (
                json!({"onMiss": "Set", "client": "Fred", "library": {}}),
                false,
                "onMiss is for loadgen.client Raw",
            ),
            (
                json!({"onMiss": "Set", "replicaReads": true}),
                true,
                "leave out onMiss or loadgen.replicaReads",
            ),
            (json!({"onMiss": "Set", "ratio": "1:0"}), false, "loadgen.ratio some, such as 0:1"),
            (json!({"onMiss": "Set", "operations": [{"operation": "Mget"}]}), false, "add the operation Get"),
            (
                json!({"onMiss": "Set", "operations": [{"operation": "Get", "missing": true}]}),
                false,
                "loadgen.operations[0] reads keys that nobody writes (missing)",
            ),
            (json!({"ratio": "0:1", "expiry": "5s"}), false, "loadgen.expiry is of the SETs"),
            (
                json!({"expiry": "5s", "operations": [{"operation": "Set"}]}),
                false,
                "loadgen.operations an expiry",
            ),
            (json!({"expiryMaximum": "5s"}), false, "an expiryMaximum needs an expiry"),
            (json!({"expiry": "6s", "expiryMaximum": "5s"}), false, "not above it"),
            (json!({"operations": [{"operation": "Set", "expiryMaximum": "5s"}]}), false, "needs an expiry"),
            (json!({"operations": [{"command": "COPY __key__ __key__"}]}), true, "has several keys"),
            (
                json!({"operations": [{"operation": "Get"}, {"operation": "Get", "keyMinimum": 2_000_000}]}),
                false,
                "loadgen.operations[1] has a keyMaximum below its keyMinimum",
            ),
            (
                json!({"operations": [{"command": "ZREVRANGE board 0 9", "keyPrefix": "board"}]}),
                false,
                "loadgen.operations[0] has key fields, but no __key__",
            ),
            (
                json!({"operations": [{"command": "HSET s:__key__ f v", "expiry": "5s"}]}),
                false,
                "loadgen.operations[0] has an expiry, which is that of its command's first argument",
            ),
            (
                json!({"operations": [{"command": "PING", "expiry": "5s"}]}),
                false,
                "has an expiry, which is that of its command's first argument",
            ),
            (
                library(json!([{"operation": "Get", "keyPrefix": "a"}])),
                false,
                "the keys and sizes of the load",
            ),
            (library(json!([{"operation": "Set", "dataSize": 5}])), false, "the keys and sizes of the load"),
            (
                json!({"client": "Fred", "library": {}, "ratio": "1:0", "compressibility": "0.5"}),
                false,
                "are for loadgen.client Raw",
            ),
        ] {
            let found = problem(&options, cluster);
            assert!(found.contains(reason), "{options} is refused with {found:?}, not for {reason:?}");
        }
        let primes: Vec<Value> = [9973, 9967, 9949, 9941, 9931, 9929, 9923, 9907, 9901, 9887, 9883]
            .into_iter()
            .map(|weight| json!({"operation": "Get", "weight": weight}))
            .collect();
        assert!(problem(&json!({"operations": primes}), false).contains("rounder ones"));
    }

    #[test]
    fn a_declaration_that_can_run_is_accepted() {
        for (options, cluster) in [
            (json!({}), true),
            (json!({"client": "Fred", "library": {}, "ratio": "0:1"}), true),
            (json!({"operations": [{"operation": "Mset", "keys": 10}]}), false),
            (json!({"operations": [{"operation": "Mset", "keys": 10}], "keyPrefix": "{tag}:"}), true),
            (json!({"operations": [{"operation": "Get", "keys": 1}]}), true),
            (json!({"replicaReads": true, "ratio": "0:1"}), true),
            (json!({"onMiss": "Set", "ratio": "0:1", "expiry": "5s", "expiryMaximum": "9s"}), true),
            (json!({"onMiss": "Set", "operations": [{"operation": "Get"}], "expiry": "5s"}), false),
            (json!({"expiry": "5s", "expiryMaximum": "5s"}), false),
            (json!({"replicaReads": true, "operations": [{"operation": "Exists"}]}), true),
            (json!({"dataSizeMaximum": 32, "compressibility": "0.5"}), false),
            (json!({"operations": [{"operation": "Mset", "keys": 10, "keyPrefix": "{tag}:"}]}), true),
            (json!({"operations": [{"command": "HSET __key__ f __data__", "expiry": "5s"}]}), true),
            (
                json!({"operations": [{"operation": "Set", "dataSize": 9, "dataSizeMaximum": 10, "keyMaximum": 0}]}),
                false,
            ),
        ] {
            assert_eq!(problem(&options, cluster), "", "{options}");
        }
    }
}
