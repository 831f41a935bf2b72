//! Rules over a suite's variants and axes, before anything is expanded. Pure.

use super::paths::Fields;
use dragstrip_crds::{
    BenchmarkSuiteSpec,
    suite::{Axis, AxisValue, DECIDED_BY_SUITE, Patch, Variant},
};
use dragstrip_report::csv;
use jsonptr::Pointer;
use serde_json::Value;
use std::{borrow::Cow, collections::HashSet};

const LONGEST_NAME: usize = 40;

/// What reports call `value`: its name, or the value itself if that can be a name.
pub fn display_name(value: &AxisValue) -> Option<String> {
    let own = || match value.value.as_ref()? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(yes) => Some(yes.to_string()),
        _ => None,
    };
    value.name.clone().or_else(own).filter(|name| !name.is_empty() && name.chars().count() <= LONGEST_NAME)
}

/// A pointer and where it is written.
struct Written<'a> {
    field: String,
    path: Cow<'a, str>,
}

fn of_patches<'a>(field: &str, patches: &'a [Patch]) -> Vec<Written<'a>> {
    let written = |(index, patch): (usize, &'a Patch)| Written {
        field: format!("{field}.patches[{index}].path"),
        path: Cow::from(&patch.path),
    };
    patches.iter().enumerate().map(written).collect()
}

fn of_axis(axis: &Axis) -> Vec<Written<'_>> {
    let field = format!("spec.axes[{}]", axis.name);
    let paths = axis.paths.iter().enumerate();
    let own = paths
        .map(|(index, path)| Written { field: format!("{field}.paths[{index}]"), path: Cow::from(path) });
    let values = axis.values.iter().enumerate();
    let patched = values.flat_map(|(index, value)| {
        let name = display_name(value).unwrap_or_else(|| index.to_string());
        of_patches(&format!("{field}.values[{name}]"), &value.patches)
    });
    own.chain(patched).collect()
}

fn check_path(written: &Written<'_>, fields: &Fields) -> Option<String> {
    let (field, path) = (&written.field, &written.path);
    let syntax = || {
        format!(
            "{field}: {path:?} is not a JSON pointer: it begins with / and names a field at each step, such as /phases/0/memtier/pipeline"
        )
    };
    let Ok(pointer) = Pointer::parse(&**path) else { return Some(syntax()) };
    let Some(first) = pointer.first() else { return Some(syntax()) };
    // The target is a variant's, and an axis may vary what is in it.
    let mut decided = DECIDED_BY_SUITE.iter().filter(|name| **name != "target");
    if decided.any(|name| first.decoded() == *name) {
        return Some(decided_by_suite(field, path));
    }
    let near = fields.find(pointer).err()?;
    Some(format!("{field}: a run has no field {path}: {near}"))
}

/// The problem of a `field` that sets what the suite itself decides.
pub fn decided_by_suite(field: &str, path: &str) -> String {
    format!("{field}: {path} is what the suite itself decides: leave it out")
}

fn twice<'a>(field: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen = HashSet::new();
    let repeated = names.filter(|name| !seen.insert(*name));
    repeated.map(|name| format!("{field} {name:?} appears twice: use unique names")).collect()
}

fn check_values(axis: &Axis) -> Vec<String> {
    let names: Vec<Option<String>> = axis.values.iter().map(display_name).collect();
    let field = format!("spec.axes[{}].values", axis.name);
    let mut problems = twice(&field, names.iter().flatten().map(String::as_str));
    for (index, (value, name)) in axis.values.iter().zip(&names).enumerate() {
        let field = format!("{field}[{}]", name.clone().unwrap_or_else(|| index.to_string()));
        let problem = match (&value.value, value.patches.is_empty()) {
            (None, true) => "changes nothing: give it a value, or patches",
            // Patches alone make the difference, and the value is its name.
            (Some(_), true) if axis.paths.is_empty() => {
                "has a value, and its axis has no paths to put it at: name them, or give each value patches"
            }
            _ if name.is_none() => {
                "needs a name: only texts of at most 40 characters, numbers, true and false are names themselves"
            }
            _ => continue,
        };
        problems.push(format!("{field} {problem}"));
    }
    problems
}

/// Where `variant` says what makes it another one.
fn of_variant(variant: &Variant) -> Vec<Written<'_>> {
    let field = format!("spec.variants[{}]", variant.name);
    let target = variant
        .target
        .0
        .keys()
        .map(|kind| Written { field: format!("{field}.target"), path: Cow::from(format!("/target/{kind}")) });
    target.chain(of_patches(&field, &variant.patches)).collect()
}

/// Whether what is put at `outer` replaces what stands at `inner`.
fn replaces(outer: &str, inner: &str) -> bool {
    let within = inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    // One that adds an item replaces none.
    within && outer.split('/').all(|step| step != "-")
}

/// What two axes change both, or an axis and a variant.
fn contested(spec: &BenchmarkSuiteSpec) -> Vec<String> {
    let axes: Vec<Vec<Written<'_>>> = spec.axes.iter().map(of_axis).collect();
    let mut problems = Vec::new();
    let mut report = |first: &Written<'_>, second: &Written<'_>| {
        problems.push(format!(
            "{} and {} both change {}, and only one of them would count: vary it by one",
            first.field, second.field, second.path
        ));
    };
    for (index, axis) in axes.iter().enumerate() {
        for one in axis {
            let overlaps =
                |other: &&Written<'_>| replaces(&one.path, &other.path) || replaces(&other.path, &one.path);
            if let Some(other) = axes[index + 1..].iter().flatten().find(overlaps) {
                report(one, other);
            }
        }
    }
    for own in spec.variants.iter().flat_map(of_variant) {
        // An axis may vary a part of what a variant sets.
        if let Some(axis) = axes.iter().flatten().find(|axis| replaces(&axis.path, &own.path)) {
            report(&own, axis);
        }
    }
    problems
}

/// Everything that is wrong with the names, values and pointers of `spec`.
pub fn check(spec: &BenchmarkSuiteSpec, fields: &Fields) -> Vec<String> {
    let mut problems = twice("spec.variants", spec.variants.iter().map(|variant| variant.name.as_str()));
    problems.extend(twice("spec.axes", spec.axes.iter().map(|axis| axis.name.as_str())));
    let of_reports = spec.axes.iter().map(|axis| &axis.name).filter(|name| csv::is_column(name));
    problems.extend(of_reports.map(|name| {
        format!(
            "spec.axes[{name}]: reports already have a column named {name}: rename the axis, such as {name}-size or {name}-count"
        )
    }));
    problems.extend(spec.axes.iter().flat_map(check_values));
    let of_variants = spec
        .variants
        .iter()
        .flat_map(|variant| of_patches(&format!("spec.variants[{}]", variant.name), &variant.patches));
    let written = of_variants.chain(spec.axes.iter().flat_map(of_axis));
    problems.extend(written.filter_map(|written| check_path(&written, fields)));
    problems.extend(contested(spec));
    problems
}
