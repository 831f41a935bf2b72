//! Lines that match regular expressions, for tools that print sentences.
//!
//! Named groups have meanings: `operation`, `count`, `operationsPerSecond`,
//! `errors`, `hits`, `misses`, `bytes`, `seconds`, `meanLatency`,
//! `minimumLatency`, `maximumLatency`, and `p` with two or more digits for a
//! percentile (`p50`, `p999` is 99.9). Every other group is a figure of its own.
//! Of several lines that match one pattern with one operation's name the last
//! counts, as tools print progress before the result; what two patterns say of
//! one operation is put together, and must not overlap.
//!
//! The expressions are Rust's: they take time linear in the text, and their
//! compiled size is bounded.

use crate::{
    notation::{Notation, NotationError, NumberError},
    parsed::{Draft, Metric, Operation, Parsed, only_duration},
    records::{Lines, lines},
    time::{self, TimeError},
};
use dragstrip_crds::workload::{Merge, RegexLine, RegexParser, TimeUnit};
use regex::{Captures, Regex, RegexBuilder};
use std::{borrow::Cow, collections::BTreeMap};

/// Bytes that one compiled pattern may take.
const PATTERN_SIZE: usize = 1 << 20;

/// Why the lines gave no result.
#[derive(Debug, thiserror::Error)]
pub enum RegexError {
    /// The declared separators make no notation.
    #[error(transparent)]
    Notation(#[from] NotationError),
    /// A pattern is no regular expression, or a huge one.
    #[error("pattern {pattern:?} cannot be used")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        source: Box<regex::Error>,
    },
    /// A pattern has no named group.
    #[error("pattern {0:?} has no named group, such as (?<count>[0-9]+), and so reads nothing")]
    NoGroup(String),
    /// A pattern reads figures of an operation that nothing names.
    #[error(
        "pattern {pattern:?} has the group {group:?} but no operation: set operation, or add a group operation"
    )]
    NoOperation {
        /// The pattern.
        pattern: String,
        /// The group.
        group: String,
    },
    /// No line matched a pattern that is required.
    #[error("no line of the output matches {0:?}")]
    NoMatch(String),
    /// A figure is no number.
    #[error("group {group:?} of {line:?}: {source}")]
    Number {
        /// The group.
        group: String,
        /// The line.
        line: String,
        /// What is wrong.
        source: NumberError,
    },
    /// A figure is no time.
    #[error("group {group:?} of {line:?}: {source}")]
    Time {
        /// The group.
        group: String,
        /// The line.
        line: String,
        /// What is wrong.
        source: TimeError,
    },
    /// Two patterns gave the same figure.
    #[error(
        "two patterns give {group:?} of operation {operation:?}: have one leave it out, or name another operation"
    )]
    Twice {
        /// The group.
        group: String,
        /// The operation; empty for figures of none.
        operation: String,
    },
}

/// What a named group means.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Meaning {
    Operation,
    Count,
    OperationsPerSecond,
    Errors,
    Hits,
    Misses,
    Bytes,
    Seconds,
    MeanLatency,
    MinimumLatency,
    MaximumLatency,
    Percentile(f64),
    Figure,
}

impl Meaning {
    fn of(group: &str) -> Self {
        match group {
            "operation" => Self::Operation,
            "count" => Self::Count,
            "operationsPerSecond" => Self::OperationsPerSecond,
            "errors" => Self::Errors,
            "hits" => Self::Hits,
            "misses" => Self::Misses,
            "bytes" => Self::Bytes,
            "seconds" => Self::Seconds,
            "meanLatency" => Self::MeanLatency,
            "minimumLatency" => Self::MinimumLatency,
            "maximumLatency" => Self::MaximumLatency,
            _ => percentile(group).map_or(Self::Figure, Self::Percentile),
        }
    }

    /// Whether it belongs to an operation. Seconds may be those of the whole run.
    fn of_an_operation(self) -> bool {
        !matches!(self, Self::Operation | Self::Figure | Self::Seconds)
    }
}

/// 99.9 out of `p999`: two digits before the point, the others behind it.
fn percentile(group: &str) -> Option<f64> {
    let digits = group.strip_prefix('p')?;
    if !matches!(digits.len(), 2..=8) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (whole, fraction) = digits.split_at(2);
    format!("{whole}.{fraction}0").parse().ok()
}

/// A pattern, compiled.
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
        if groups.iter().all(|(_, meaning)| *meaning == Meaning::Operation) {
            return Err(RegexError::NoGroup(pattern.clone()));
        }
        let named =
            options.operation.is_some() || groups.iter().any(|(_, meaning)| *meaning == Meaning::Operation);
        if !named && let Some((group, _)) = groups.iter().find(|(_, meaning)| meaning.of_an_operation()) {
            return Err(RegexError::NoOperation { pattern: pattern.clone(), group: group.clone() });
        }
        Ok(Self { options, regex, groups })
    }

    /// The last matching line of each operation, in the order of their first.
    fn matches<'t>(&self, texts: &[Lines<'t>]) -> Vec<Match<'t>> {
        let mut found: Vec<Match<'t>> = Vec::new();
        for (text, lines) in texts.iter().enumerate() {
            for line in lines.whole.split(['\n', '\r']) {
                let Some(captures) = self.regex.captures(line) else { continue };
                let operation = captures
                    .name("operation")
                    .map(|name| name.as_str().trim().to_owned())
                    .or_else(|| self.options.operation.clone());
                let new = Match { text, operation, captures };
                match found.iter_mut().find(|known| known.operation == new.operation) {
                    Some(known) => *known = new,
                    None => found.push(new),
                }
            }
        }
        found
    }
}

/// A line that matched.
struct Match<'t> {
    /// Which of the texts holds it.
    text: usize,
    operation: Option<String>,
    captures: Captures<'t>,
}

/// Whether the options make sense by themselves.
pub fn check(options: &RegexParser) -> Result<(), RegexError> {
    Notation::new(&options.decimal_separator, options.thousands_separator.as_deref())?;
    options.lines.iter().try_for_each(|line| Rule::new(line).map(|_| ()))
}

/// Reads texts one after the other, line by line.
pub fn parse(options: &RegexParser, texts: &[Cow<'_, str>]) -> Result<Parsed, RegexError> {
    let notation = Notation::new(&options.decimal_separator, options.thousands_separator.as_deref())?;
    let texts: Vec<_> = texts.iter().map(|text| lines(text)).collect();
    let mut found = Found { notation, operations: Vec::new(), metrics: Vec::new(), seconds: None };
    // Standard error comes second. A progress bar leaves its last line open,
    // which matters only where something is read there.
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
        for found_line in &matches {
            read[found_line.text] = true;
            found.take_in(&rule, found_line)?;
        }
    }
    let incomplete = texts.iter().zip(read).find_map(|(lines, read)| lines.incomplete().filter(|_| read));
    let operations: Vec<_> = found.operations.into_iter().map(Draft::finish).collect();
    Ok(Parsed {
        seconds: found.seconds.or_else(|| only_duration(&operations)),
        operations,
        metrics: found.metrics,
        incomplete,
        ..Parsed::default()
    })
}

/// All figures so far.
struct Found {
    notation: Notation,
    operations: Vec<Draft>,
    metrics: Vec<Metric>,
    seconds: Option<f64>,
}

impl Found {
    fn take_in(&mut self, rule: &Rule, found: &Match) -> Result<(), RegexError> {
        let (operation, captures) = (found.operation.as_deref(), &found.captures);
        for (group, meaning) in &rule.groups {
            // A group in a part of the pattern that did not take part.
            let Some(text) = captures.name(group) else { continue };
            let figure =
                Figure { rule, group, text: text.as_str(), line: &captures[0], notation: self.notation };
            let fresh = match (meaning, operation) {
                (Meaning::Operation, _) => true,
                (Meaning::Figure, _) => self.metric(operation, &figure)?,
                (Meaning::Seconds, None) => {
                    let seconds = figure.time(TimeUnit::Seconds, TimeUnit::Seconds)?;
                    self.seconds.replace(seconds).is_none()
                }
                (_, Some(operation)) => figure.store(*meaning, self.draft(operation))?,
                // The group `operation` took no part in the match.
                (_, None) => {
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

    fn draft(&mut self, name: &str) -> &mut Draft {
        let known = self.operations.iter().position(|draft| draft.operation.name == name);
        let position = known.unwrap_or_else(|| {
            self.operations.push(Draft { operation: Operation::named(name), latency: None });
            self.operations.len() - 1
        });
        &mut self.operations[position]
    }

    fn metric(&mut self, operation: Option<&str>, figure: &Figure) -> Result<bool, RegexError> {
        let known = |metric: &Metric| metric.name == figure.group && metric.operation.as_deref() == operation;
        if self.metrics.iter().any(known) {
            return Ok(false);
        }
        self.metrics.push(Metric {
            operation: operation.map(str::to_owned),
            name: figure.group.to_owned(),
            value: figure.number()?,
            unit: None,
            samples: Vec::new(),
            merge: merge(&figure.rule.options.merge, figure.group),
        });
        Ok(true)
    }
}

fn merge(declared: &BTreeMap<String, Merge>, group: &str) -> Merge {
    declared.get(group).copied().unwrap_or_default()
}

/// One captured text.
struct Figure<'a> {
    rule: &'a Rule<'a>,
    group: &'a str,
    text: &'a str,
    line: &'a str,
    notation: Notation,
}

impl Figure<'_> {
    /// Puts it where it belongs; `false` if something is there already.
    fn store(&self, meaning: Meaning, draft: &mut Draft) -> Result<bool, RegexError> {
        let operation = &mut draft.operation;
        Ok(match meaning {
            Meaning::Count => operation.count.replace(self.count()?).is_none(),
            Meaning::Errors => operation.errors.replace(self.count()?).is_none(),
            Meaning::Hits => operation.hits.replace(self.count()?).is_none(),
            Meaning::Misses => operation.misses.replace(self.count()?).is_none(),
            Meaning::Bytes => operation.bytes.replace(self.count()?).is_none(),
            Meaning::OperationsPerSecond => operation.operations_per_second.replace(self.rate()?).is_none(),
            Meaning::Seconds => {
                let seconds = self.time(TimeUnit::Seconds, TimeUnit::Seconds)?;
                operation.seconds.replace(seconds).is_none()
            }
            Meaning::MeanLatency
            | Meaning::MinimumLatency
            | Meaning::MaximumLatency
            | Meaning::Percentile(_) => {
                let milliseconds = self.time(self.rule.options.latency_unit, TimeUnit::Milliseconds)?;
                let latency = draft.latency.get_or_insert_default();
                match meaning {
                    Meaning::MeanLatency => latency.mean.replace(milliseconds).is_none(),
                    Meaning::MinimumLatency => latency.minimum.replace(milliseconds).is_none(),
                    Meaning::Percentile(percent) => latency.add_percentile(percent, milliseconds),
                    _ => latency.maximum.replace(milliseconds).is_none(),
                }
            }
            // These are no part of an operation.
            Meaning::Operation | Meaning::Figure => true,
        })
    }

    fn number(&self) -> Result<f64, RegexError> {
        self.notation.number(self.text).map_err(|source| self.number_error(source))
    }

    fn rate(&self) -> Result<f64, RegexError> {
        let rate = self.number()?;
        if rate < 0.0 {
            return Err(self.number_error(NumberError::NotANumber(self.text.to_owned())));
        }
        Ok(rate)
    }

    fn count(&self) -> Result<u64, RegexError> {
        self.notation.count(self.text).map_err(|source| self.number_error(source))
    }

    fn time(&self, declared: TimeUnit, target: TimeUnit) -> Result<f64, RegexError> {
        time::read(self.text, self.notation, declared, target).map_err(|source| RegexError::Time {
            group: self.group.to_owned(),
            line: self.shown(),
            source,
        })
    }

    fn number_error(&self, source: NumberError) -> RegexError {
        RegexError::Number { group: self.group.to_owned(), line: self.shown(), source }
    }

    fn shown(&self) -> String {
        self.line.chars().take(200).collect()
    }
}

#[cfg(test)]
mod tests;
