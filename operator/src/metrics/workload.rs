//! A phase's workload in few words. Pure.

use dragstrip_crds::workload::{BullmqSpec, LoadgenOperation, LoadgenSpec, MemtierSpec, ToolSpec};

/// Shares of names and weights, such as `SET 10%, GET 90%`; a single name alone.
fn mix(parts: &[(String, i64)]) -> String {
    let total: i64 = parts.iter().map(|(_, weight)| weight).sum();
    let sent: Vec<_> = parts.iter().filter(|(_, weight)| *weight > 0).collect();
    if let [(name, _)] = sent[..] {
        return name.clone();
    }
    let share = |weight: i64| {
        let share = format!("{:.1}", 100.0 * weight as f64 / total as f64);
        share.trim_end_matches(".0").to_owned()
    };
    sent.iter().map(|(name, weight)| format!("{name} {}%", share(*weight))).collect::<Vec<_>>().join(", ")
}

fn sets_and_gets(ratio: &str) -> String {
    let (sets, gets) = ratio.split_once(':').unwrap_or((ratio, "0"));
    let weight = |text: &str| text.parse().unwrap_or(0);
    mix(&[("SET".to_owned(), weight(sets)), ("GET".to_owned(), weight(gets))])
}

/// The command's name, such as ZADD of `zadd __key__ 1 __data__`.
fn name(command: &str) -> String {
    command.split_whitespace().next().unwrap_or_default().trim_matches(['"', '\'']).to_uppercase()
}

fn memtier(spec: &MemtierSpec) -> String {
    let commands: Vec<_> =
        spec.commands.iter().map(|command| (name(&command.command), command.ratio.into())).collect();
    let sent = if commands.is_empty() { sets_and_gets(&spec.ratio) } else { mix(&commands) };
    let size = match (&spec.data_size_range, &spec.data_size_list) {
        (Some(range), _) => range.clone(),
        (None, Some(_)) => "several sizes in".to_owned(),
        (None, None) => spec.data_size.to_string(),
    };
    format!("{sent}, {size} B")
}

fn operation(operation: &LoadgenOperation) -> (String, i64) {
    let built_in = operation.operation.map(|built_in| format!("{built_in:?}").to_uppercase());
    let name = built_in.or(operation.command.as_deref().map(name)).unwrap_or_default();
    let keys = if operation.keys > 1 { format!(" of {} keys", operation.keys) } else { String::new() };
    let missing = if operation.missing { " of missing keys" } else { "" };
    let prefix = operation.key_prefix.as_ref().map(|prefix| format!(" {prefix}*")).unwrap_or_default();
    (format!("{name}{prefix}{keys}{missing}"), operation.weight.into())
}

fn loadgen(spec: &LoadgenSpec) -> String {
    let operations: Vec<_> = spec.operations.iter().map(operation).collect();
    let sent = match &spec.batch {
        Some(batch) => format!("{:?} batches of {}", batch.operation, batch.items),
        None if operations.is_empty() => sets_and_gets(&spec.ratio),
        None => mix(&operations),
    };
    let rate = spec.rate.as_ref().map(|rate| format!(", {}/s", rate.operations_per_second));
    let fills = if spec.on_miss.is_some() { ", SET on miss" } else { "" };
    let most = spec.data_size_maximum.map(|most| format!("-{most}")).unwrap_or_default();
    format!("{sent}{fills}, {}{most} B{}", spec.data_size, rate.unwrap_or_default())
}

fn bullmq(spec: &BullmqSpec) -> String {
    format!(
        "{} writers, {} readers, {} queues, {} B",
        spec.writers, spec.readers, spec.queues, spec.payload_bytes
    )
}

/// The workload of `tool`, such as `SET 10%, GET 90%, 32 B`. Of `exec` the program: arguments may be secret.
pub fn summary(tool: &ToolSpec) -> String {
    match tool {
        ToolSpec::Loadgen(spec) => loadgen(spec),
        ToolSpec::Memtier(spec) => memtier(spec),
        ToolSpec::Bullmq(spec) => bullmq(spec),
        ToolSpec::Exec(spec) => {
            let program = spec.command.first().map(String::as_str).unwrap_or_default();
            program.rsplit('/').next().unwrap_or_default().to_owned()
        }
    }
}

/// Requests in flight on each connection; `None` if the tool does not declare them.
pub fn pipeline(tool: &ToolSpec) -> Option<i32> {
    match tool {
        ToolSpec::Loadgen(spec) => Some(spec.pipeline),
        ToolSpec::Memtier(spec) => Some(spec.pipeline),
        ToolSpec::Bullmq(_) | ToolSpec::Exec(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_workload_is_summarised_in_few_words() {
        let cases = [
            (json!({"memtier": {"testTime": "60s", "ratio": "1:9"}}), "SET 10%, GET 90%, 32 B"),
            (
                json!({"memtier": {"testTime": "60s", "ratio": "1:0", "dataSizeRange": "16-64"}}),
                "SET, 16-64 B",
            ),
            (
                json!({"memtier": {"testTime": "60s", "commands": [
                    {"command": "zadd __key__ 1 __data__", "ratio": 1}, {"command": "INCR __key__", "ratio": 2}
                ]}}),
                "ZADD 33.3%, INCR 66.7%, 32 B",
            ),
            (
                json!({"loadgen": {"duration": "1s", "operations": [{"operation": "Mget", "keys": 10}],
                    "rate": {"operationsPerSecond": 5000}}}),
                "MGET of 10 keys, 32 B, 5000/s",
            ),
            (
                json!({"loadgen": {"duration": "1s", "dataSizeMaximum": 64, "operations": [
                    {"operation": "Get", "keyPrefix": "page:"}, {"operation": "Get", "keyPrefix": "user:"}
                ]}}),
                "GET page:* 50%, GET user:* 50%, 32-64 B",
            ),
            (
                json!({"bullmq": {"duration": "30s", "writers": 16, "queues": 8}}),
                "16 writers, 0 readers, 8 queues, 32 B",
            ),
            (
                json!({"exec": {"image": "i", "command": ["/usr/bin/redis-benchmark", "-a", "secret"],
                    "parser": {"redisBenchmarkCsv": {}}}}),
                "redis-benchmark",
            ),
        ];
        for (tool, expected) in cases {
            assert_eq!(summary(&serde_json::from_value(tool.clone()).unwrap()), expected, "{tool}");
        }
    }
}
