//! What Dragstrip's own tools, the load generator and the BullMQ job, have in
//! common: the form of their progress lines, and what their end means. Pure.

use crate::tools::adapter::{Ended, Progress};
use dragstrip_loadgen::counts::report::RunStatus;
use dragstrip_results::{
    live::LatencyCounts,
    protocol::PROGRESS_DETAIL_VARIABLE,
    result::{Failure, FailureStep},
};
use std::fmt::Display;

/// The variable that adds bytes, connections and latencies to these lines.
pub(crate) fn progress_detail() -> (String, String) {
    (PROGRESS_DETAIL_VARIABLE.to_owned(), "true".to_owned())
}

/// Reads `progress elapsed_seconds=3.000 operations=457120 ... errors=0`, and what
/// [`progress_detail`] adds to it.
pub(crate) fn progress(line: &str) -> Option<Progress> {
    let fields = line.strip_prefix("progress ")?;
    let field = |name: &str| fields.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    let number = |name: &str| field(name)?.parse::<u64>().ok();
    Some(Progress {
        operations: number("operations")?,
        errors: number("errors")?,
        bytes: number("bytes"),
        connections: number("connections"),
        ratio: None,
        latency: field("latency_seconds")
            .zip(field("latency_counts"))
            .and_then(|(seconds, counts)| LatencyCounts::read(seconds, counts)),
    })
}

/// Without a readable report the exit of `tool` says most about what went wrong.
pub(crate) fn unread(tool: &str, error: &impl Display, ended: &Ended) -> Failure {
    let (step, message) = match (ended.exit.code, ended.exit.signal) {
        (Some(0), _) => (FailureStep::Output, error.to_string()),
        (Some(code), _) => (FailureStep::Tool, format!("{tool} ended with exit code {code}; {error}")),
        (None, signal) => {
            let signal = signal.unwrap_or_default();
            (FailureStep::Tool, format!("{tool} was ended by signal {signal}; {error}"))
        }
    };
    explained(step, &message, ended)
}

/// What kept `tool` from completing its work, by the `status` of its report and the signal in it.
pub(crate) fn unfinished(
    tool: &str,
    status: RunStatus,
    signal: Option<&str>,
) -> Option<(FailureStep, String)> {
    match status {
        RunStatus::Completed => None,
        RunStatus::Interrupted => {
            let signal = signal.unwrap_or("a signal");
            Some((FailureStep::Interrupted, format!("{tool} was ended by {signal}")))
        }
        RunStatus::Failed => Some((FailureStep::Tool, format!("{tool} failed and reported no reason"))),
    }
}

/// What to declare so that Dragonfly takes BullMQ's scripts.
const UNDECLARED_KEY: &str = "Dragonfly refuses scripts that touch undeclared keys: set dragonfly.lockOnHashtags \
     of the Datastore (--lock_on_hashtags) if queue names are in braces, else \
     dragonfly.allowUndeclaredKeys (--default_lua_flags=allow-undeclared-keys)";

/// Whether a line is from a JavaScript stack, which does not help the user of the tool.
fn of_a_stack(line: &str) -> bool {
    let Some(place) = line.trim_start().strip_prefix("at ") else { return false };
    place.ends_with(')') || place.rsplit(':').take(2).all(|number| number.parse::<u32>().is_ok())
}

/// A failure with how the tool ended and its last words, and with the remedy if there is one.
pub(crate) fn explained(step: FailureStep, message: &str, ended: &Ended) -> Failure {
    let said = message.lines().filter(|line| !of_a_stack(line)).collect::<Vec<_>>().join("\n");
    let last_lines: Vec<String> = ended.last_lines.iter().filter(|line| !of_a_stack(line)).cloned().collect();
    let undeclared = last_lines.iter().chain([&said]).any(|line| line.contains("undeclared key"));
    // The BullMQ job names the remedy itself.
    let message = if undeclared && !said.contains("lockOnHashtags") {
        format!("{said}. {UNDECLARED_KEY}")
    } else {
        said
    };
    Failure { last_lines, ..ended.failure(step, message) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixtures::ended;

    const REFUSED: &str = "ERR Error running script (call to 4522f1a2): @user_script:2: -ERR script tried accessing undeclared key, key: bull:q:x";

    #[test]
    fn a_script_that_dragonfly_refuses_is_reported_with_the_field_to_set() {
        let in_message = explained(FailureStep::ErrorReplies, REFUSED, &ended(Some(10), None));
        let mut run = ended(Some(10), None);
        run.last_lines = vec![REFUSED.to_owned()];
        let in_lines = explained(FailureStep::Tool, "it failed", &run);
        for failure in [in_message, in_lines] {
            assert!(failure.message.contains("set dragonfly.lockOnHashtags"), "{}", failure.message);
            assert!(failure.message.contains("dragonfly.allowUndeclaredKeys"), "{}", failure.message);
        }
        let with_remedy =
            format!("{REFUSED}: start Dragonfly with --lock_on_hashtags (lockOnHashtags: true)");
        let once = explained(FailureStep::ErrorReplies, &with_remedy, &ended(Some(10), None));
        assert_eq!(once.message, with_remedy, "the remedy is named once");
        let other = explained(FailureStep::Tool, "OOM", &ended(Some(10), None));
        assert_eq!(other.message, "OOM");
    }

    #[test]
    fn a_stack_is_left_out_and_all_else_stays() {
        let mut ended = ended(Some(1), None);
        ended.last_lines = [
            "ReplyError: ERR no",
            "    at parseError (/app/node_modules/redis-parser/lib/parser.js:179:12)",
            "    at node:internal/main/run_main_module:28:49",
            "at least one queue is missing",
        ]
        .map(str::to_owned)
        .to_vec();
        let message = "ERR no\n    at JavascriptRedisParser.execute (parser.js:563:14)";
        let failure = explained(FailureStep::Tool, message, &ended);
        assert_eq!(failure.message, "ERR no");
        assert_eq!(failure.last_lines, ["ReplyError: ERR no", "at least one queue is missing"]);
    }
}
