//! Lines that match regular expressions, for tools that print sentences.
//!
//! Named groups have meanings: `operation`, `count`, `operationsPerSecond`, `errors`, `hits`,
//! `misses`, `bytes`, `seconds`, `meanLatency`, `maximumLatency`, and `p` with two or more digits
//! for a percentile (`p50`, `p999` is 99.9, `p100` the maximum). Every other group is a metric.
//! Tools print progress before the result, so the last line that matches a pattern counts, for
//! each operation. Two patterns may complete each other and must not overlap.
//!
//! Rust's expressions take time linear in the text, and their compiled size is bounded.

use crate::{
    figures::{Draft, Field, Figure, FigureError, finish, position},
    notation::Notation,
    parsed::{Parsed, metric_name},
    records::{Lines, lines},
};
use dragstrip_crds::{
    measured::Metric,
    workload::{RegexLine, RegexParser, TimeUnit},
};
use regex::{Captures, Regex, RegexBuilder};
use std::borrow::Cow;

/// Bytes that one compiled pattern may take.
const PATTERN_SIZE: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum RegexError {
    /// A pattern is not a regular expression, or a huge one.
    #[error("cannot use pattern {pattern:?}")]
    Pattern { pattern: String, source: Box<regex::Error> },
    #[error("pattern {0:?} reads nothing: give it a named group, such as (?<count>[0-9]+)")]
    NoGroup(String),
    #[error(
        "pattern {pattern:?} has the group {group:?} but no operation: set operation, or add a group operation"
    )]
    NoOperation { pattern: String, group: String },
    #[error("no line of the output matches {0:?}")]
    NoMatch(String),
    #[error("group {group:?} of {line:?}: {source}")]
    Figure { group: String, line: String, source: FigureError },
    #[error("two patterns give {group:?} of operation {operation:?}: remove one, or name another operation")]
    Twice {
        group: String,
        /// The operation; empty for figures of none.
        operation: String,
    },
}

/// What a named group means.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Meaning {
    Operation,
    Field(Field),
    Metric,
}

impl Meaning {
    fn of(group: &str) -> Self {
        Self::Field(match group {
            "operation" => return Self::Operation,
            "count" => Field::Count,
            "operationsPerSecond" => Field::OperationsPerSecond,
            "errors" => Field::Errors,
            "hits" => Field::Hits,
            "misses" => Field::Misses,
            "bytes" => Field::Bytes,
            "seconds" => Field::Seconds,
            "meanLatency" => Field::MeanLatency,
            "maximumLatency" => Field::MaximumLatency,
            _ => match percentile(group) {
                Some(percent) => Field::Percentile(percent),
                None => return Self::Metric,
            },
        })
    }

    /// Whether it belongs to an operation. Seconds may be those of the run.
    fn needs_operation(self) -> bool {
        matches!(self, Self::Field(field) if field != Field::Seconds)
    }
}

/// 99.9 for `p999`: two digits before the point, the others behind it. `p100` is the maximum.
fn percentile(group: &str) -> Option<f64> {
    let digits = group.strip_prefix('p')?;
    if digits == "100" {
        return Some(100.0);
    }
    if !matches!(digits.len(), 2..=8) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (whole, fraction) = digits.split_at(2);
    format!("{whole}.{fraction}0").parse().ok()
}

struct Rule<'a> {
    options: &'a RegexLine,
    regex: Regex,
    groups: Vec<(String, Meaning)>,
}

impl<'a> Rule<'a> {
    fn new(options: &'a RegexLine) -> Result<Self, RegexError> {
        let pattern = &options.pattern;
        let regex = RegexBuilder::new(pattern)
            .size_limit(PATTERN_SIZE)
            .dfa_size_limit(PATTERN_SIZE)
            .build()
            .map_err(|source| RegexError::Pattern { pattern: pattern.clone(), source: Box::new(source) })?;
        let groups: Vec<_> =
            regex.capture_names().flatten().map(|name| (name.to_owned(), Meaning::of(name))).collect();
        let names_operation = |(_, meaning): &(String, Meaning)| *meaning == Meaning::Operation;
        if groups.iter().all(names_operation) {
            return Err(RegexError::NoGroup(pattern.clone()));
        }
        let named = options.operation.is_some() || groups.iter().any(names_operation);
        if !named && let Some((group, _)) = groups.iter().find(|(_, meaning)| meaning.needs_operation()) {
            return Err(RegexError::NoOperation { pattern: pattern.clone(), group: group.clone() });
        }
        Ok(Self { options, regex, groups })
    }

    /// The last matching line of each operation, in the order of their first.
    fn matches<'t>(&self, texts: &[Lines<'t>]) -> Vec<Match<'t>> {
        let mut found: Vec<Match<'t>> = Vec::new();
        for (text, lines) in texts.iter().enumerate() {
            for line in lines.complete.split(['\n', '\r']) {
                let Some(captures) = self.regex.captures(line) else { continue };
                let operation = captures
                    .name("operation")
                    .map(|name| name.as_str().trim().to_owned())
                    .or_else(|| self.options.operation.clone());
                let new = Match { text, operation, captures };
                match found.iter_mut().find(|old| old.operation == new.operation) {
                    Some(old) => *old = new,
                    None => found.push(new),
                }
            }
        }
        found
    }
}

struct Match<'t> {
    /// Which of the texts holds it.
    text: usize,
    operation: Option<String>,
    captures: Captures<'t>,
}

/// Checks that the options make sense by themselves.
pub fn check(options: &RegexParser) -> Result<(), RegexError> {
    options.lines.iter().try_for_each(|line| Rule::new(line).map(|_| ()))
}

/// Reads texts one after the other, line by line.
pub fn parse(options: &RegexParser, texts: &[Cow<'_, str>]) -> Result<Parsed, RegexError> {
    let notation =
        Notation::grouped(options.thousands_separator.as_ref().and_then(|text| text.chars().next()));
    let texts: Vec<_> = texts.iter().map(|text| lines(text)).collect();
    let mut found = Found { notation, drafts: Vec::new(), metrics: Vec::new(), seconds: None };
    // A progress bar on standard error, the second text, leaves its last line open. That
    // matters only if a pattern matches there.
    let mut read = vec![false; texts.len()];
    if let Some(first) = read.first_mut() {
        *first = true;
    }
    for line in &options.lines {
        let rule = Rule::new(line)?;
        let matches = rule.matches(&texts);
        if matches.is_empty() && line.required {
            return Err(RegexError::NoMatch(line.pattern.clone()));
        }
        for matched in &matches {
            read[matched.text] = true;
            found.add(&rule, matched)?;
        }
    }
    let incomplete = texts.iter().zip(read).find_map(|(lines, read)| lines.incomplete().filter(|_| read));
    let (operations, seconds) = finish(found.drafts);
    Ok(Parsed {
        seconds: found.seconds.or(seconds),
        operations,
        metrics: found.metrics,
        incomplete,
        ..Parsed::default()
    })
}

struct Found {
    notation: Notation,
    drafts: Vec<Draft>,
    metrics: Vec<Metric>,
    seconds: Option<f64>,
}

impl Found {
    fn add(&mut self, rule: &Rule, matched: &Match) -> Result<(), RegexError> {
        let captures = &matched.captures;
        for (group, meaning) in &rule.groups {
            // A group in a part of the pattern that did not take part.
            let Some(text) = captures.name(group) else { continue };
            let failed = |source| {
                let line = captures[0].chars().take(200).collect();
                RegexError::Figure { group: group.clone(), line, source }
            };
            let seconds = *meaning == Meaning::Field(Field::Seconds);
            let unit = if seconds { TimeUnit::Seconds } else { rule.options.latency_unit };
            let figure = Figure { text: text.as_str(), notation: self.notation, unit };
            let operation = matched.operation.as_deref();
            let fresh = match (*meaning, operation) {
                (Meaning::Operation, _) => true,
                (Meaning::Metric, _) => self.add_metric(rule, group, operation, &figure).map_err(failed)?,
                (Meaning::Field(Field::Seconds), None) => {
                    self.seconds.replace(figure.time(TimeUnit::Seconds).map_err(failed)?).is_none()
                }
                (Meaning::Field(field), Some(operation)) => {
                    let position = position(&mut self.drafts, operation);
                    self.drafts[position].store(field, &figure).map_err(failed)?
                }
                // The group `operation` took no part in the match.
                (Meaning::Field(_), None) => {
                    let pattern = rule.options.pattern.clone();
                    return Err(RegexError::NoOperation { pattern, group: group.clone() });
                }
            };
            if !fresh {
                let operation = operation.unwrap_or_default().to_owned();
                return Err(RegexError::Twice { group: group.clone(), operation });
            }
        }
        Ok(())
    }

    /// Adds a metric; `false` if it is there already.
    fn add_metric(
        &mut self,
        rule: &Rule,
        name: &str,
        operation: Option<&str>,
        figure: &Figure,
    ) -> Result<bool, FigureError> {
        let full_name = metric_name(operation, name);
        if self.metrics.iter().any(|metric| metric.name == full_name) {
            return Ok(false);
        }
        self.metrics.push(Metric {
            name: full_name,
            value: figure.notation.number(figure.text)?,
            unit: rule.options.units.get(name).cloned(),
            merge: rule.options.merge.get(name).copied().unwrap_or_default(),
            more_is_better: rule.options.more_is_better.get(name).copied(),
        });
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
