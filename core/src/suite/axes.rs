//! What can be said of a suite's variants and axes before anything is expanded. Pure.

use super::{expand::Problem, paths::Fields};
use dragstrip_crds::{
    BenchmarkSuiteSpec,
    suite::{Axis, AxisValue, DECIDED_BY_SUITE, Patch, Variant},
};
use dragstrip_report::csv;
use jsonptr::Pointer;
use serde_json::Value;
use std::{borrow::Cow, collections::HashSet};

/// The longest name of a value.
const LONGEST_NAME: usize = 40;

/// What reports call `value`: its name, or itself where that can be one.
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

/// All pointers of `axis`.
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

fn check_path(written: &Written<'_>, fields: &Fields) -> Option<Problem> {
    let (field, path) = (written.field.clone(), written.path.to_string());
    let Ok(pointer) = Pointer::parse(&*written.path) else {
        return Some(Problem::Syntax { field, path });
    };
    let Some(first) = pointer.first() else {
        return Some(Problem::Syntax { field, path });
    };
    // The target is a variant's, and an axis may vary what is in it.
    let decided = DECIDED_BY_SUITE.iter().filter(|name| **name != "target");
    if decided.into_iter().any(|name| first.decoded() == *name) {
        return Some(Problem::Decided { field, path });
    }
    fields.find(pointer).err().map(|nowhere| Problem::Path { field, path, near: nowhere.near })
}

fn twice<'a>(field: &str, names: impl Iterator<Item = &'a str>) -> Vec<Problem> {
    let mut seen = HashSet::new();
    let repeated = names.filter(|name| !seen.insert(*name));
    repeated.map(|name| Problem::Twice { field: field.to_owned(), name: name.to_owned() }).collect()
}

fn check_values(axis: &Axis) -> Vec<Problem> {
    let names: Vec<Option<String>> = axis.values.iter().map(display_name).collect();
    let field = format!("spec.axes[{}].values", axis.name);
    let mut problems = twice(&field, names.iter().flatten().map(String::as_str));
    for (index, (value, name)) in axis.values.iter().zip(&names).enumerate() {
        let field = format!("{field}[{}]", name.clone().unwrap_or_else(|| index.to_string()));
        match (&value.value, value.patches.is_empty()) {
            (None, true) => problems.push(Problem::Empty(field)),
            // Patches alone make the difference, and the value is what it is called by.
            (Some(_), true) if axis.paths.is_empty() => problems.push(Problem::NoPlace(field)),
            _ if name.is_none() => problems.push(Problem::Nameless(field)),
            _ => {}
        }
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
fn contested(spec: &BenchmarkSuiteSpec) -> Vec<Problem> {
    let axes: Vec<Vec<Written<'_>>> = spec.axes.iter().map(of_axis).collect();
    let mut problems = Vec::new();
    let mut tell = |first: &Written<'_>, second: &Written<'_>| {
        let (first, second, path) = (first.field.clone(), second.field.clone(), second.path.to_string());
        problems.push(Problem::Contested { first, second, path });
    };
    for (index, axis) in axes.iter().enumerate() {
        let later = || axes[index + 1..].iter().flatten();
        for one in axis {
            let overlaps =
                |other: &Written<'_>| replaces(&one.path, &other.path) || replaces(&other.path, &one.path);
            if let Some(other) = later().find(|other| overlaps(other)) {
                tell(one, other);
            }
        }
    }
    for own in spec.variants.iter().flat_map(of_variant) {
        // What is in what a variant says may well be varied.
        if let Some(axis) = axes.iter().flatten().find(|axis| replaces(&axis.path, &own.path)) {
            tell(&own, axis);
        }
    }
    problems
}

/// Everything that is wrong with the names, values and pointers of `spec`.
pub fn check(spec: &BenchmarkSuiteSpec, fields: &Fields) -> Vec<Problem> {
    let mut problems = twice("spec.variants", spec.variants.iter().map(|variant| variant.name.as_str()));
    problems.extend(twice("spec.axes", spec.axes.iter().map(|axis| axis.name.as_str())));
    let of_reports = spec.axes.iter().filter(|axis| csv::is_column(&axis.name));
    problems.extend(of_reports.map(|axis| Problem::Column(axis.name.clone())));
    problems.extend(spec.axes.iter().flat_map(check_values));
    for variant in &spec.variants {
        let written = of_patches(&format!("spec.variants[{}]", variant.name), &variant.patches);
        problems.extend(written.iter().filter_map(|one| check_path(one, fields)));
    }
    for axis in &spec.axes {
        problems.extend(of_axis(axis).iter().filter_map(|one| check_path(one, fields)));
    }
    problems.extend(contested(spec));
    problems
}
