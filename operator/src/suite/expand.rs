//! A suite to its runs: each variant with each value of each axis, patched into the template,
//! decoded and judged as a BenchmarkRun is, in the order in which they are to be made. Pure.

mod problem;

pub use problem::{Invalid, Problem};

use super::{
    axes::{self, display_name},
    paths::OF_RUN,
};
use crate::run::validate;
use dragstrip_crds::{
    BenchmarkRun, BenchmarkRunSpec, BenchmarkSuite, BenchmarkSuiteSpec,
    suite::{Axis, DECIDED_BY_SUITE, Exclusion, Order, Patch, Variant},
};
use dragstrip_report::document::{AxisHead, Cell};
use jsonptr::{Assign, PointerBuf};
use kube::ResourceExt;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A combination and what its runs are called by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedCell {
    /// The variant and a value of each axis.
    pub cell: Cell,
    /// The same in words, such as `redis-8 threads=2 pipeline=10`.
    pub words: String,
    /// Eight hexadecimal digits, unique in the suite.
    pub digest: String,
    variant: usize,
    values: Vec<usize>,
}

/// What a suite measures, without the specs of its runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What is varied.
    pub axes: Vec<AxisHead>,
    /// Every combination, in the order of the declaration.
    pub cells: Vec<PlannedCell>,
    /// The runs in the order in which they are to be made: a combination's place in `cells`,
    /// and which of its runs it is, from 1.
    pub order: Vec<(usize, u32)>,
    stem: String,
}

/// One run of a suite.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildRun {
    /// Its name: at most 33 characters, unique in the suite.
    pub name: String,
    /// The combination that it measures.
    pub cell: Cell,
    /// Which of the combination's runs it is, from 1.
    pub repetition: u32,
    /// Its spec.
    pub spec: BenchmarkRunSpec,
}

/// A suite with all its runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Expanded {
    /// What is varied.
    pub axes: Vec<AxisHead>,
    /// The runs, in the order in which they are to be made.
    pub runs: Vec<ChildRun>,
}

/// Combinations that are counted one by one where some are left out; of more the product is told.
const COUNTED: u128 = 100_000;

/// Characters of the suite's name that are in the names of its runs: with the digest and a
/// repetition of two digits 32, one less than a run's name may have.
const STEM: usize = 20;

fn stem(suite: &str) -> String {
    let plain: String = suite.chars().map(|letter| if letter == '.' { '-' } else { letter }).collect();
    plain.chars().take(STEM).collect::<String>().trim_end_matches('-').to_owned()
}

/// The digest of `parts`, none of which can be taken for two.
fn digest(parts: &[&str]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part.len().to_be_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

fn repetitions(spec: &BenchmarkSuiteSpec) -> u32 {
    u32::try_from(spec.repetitions).unwrap_or(1).max(1)
}

/// How many combinations there are before any is left out.
fn product(spec: &BenchmarkSuiteSpec) -> u128 {
    let sizes = spec.axes.iter().map(|axis| axis.values.len() as u128);
    sizes.fold(spec.variants.len() as u128, u128::saturating_mul)
}

/// Every combination by places: of the variant, and of a value of each axis. The last axis
/// changes fastest. Made one after the other: they may be millions.
fn combinations(spec: &BenchmarkSuiteSpec) -> impl Iterator<Item = (usize, Vec<usize>)> {
    let sizes: Vec<u128> = spec.axes.iter().map(|axis| axis.values.len() as u128).collect();
    (0..product(spec)).map(move |number| {
        let mut left = number;
        let mut values: Vec<usize> = sizes
            .iter()
            .rev()
            .map(|size| {
                let place = left % size;
                left /= size;
                usize::try_from(place).unwrap_or_default()
            })
            .collect();
        values.reverse();
        (usize::try_from(left).unwrap_or_default(), values)
    })
}

/// An exclusion by the places of what it names.
struct Excluded {
    variant: Option<usize>,
    values: Vec<(usize, usize)>,
}

impl Excluded {
    fn leaves_out(&self, variant: usize, values: &[usize]) -> bool {
        self.variant.is_none_or(|named| named == variant)
            && self.values.iter().all(|(axis, value)| values.get(*axis) == Some(value))
    }
}

/// Where `exclusion` finds what it names, or which name is not there.
fn resolve(exclusion: &Exclusion, spec: &BenchmarkSuiteSpec) -> Result<Excluded, String> {
    let variant = exclusion.variant.as_ref().map(|name| {
        let place = spec.variants.iter().position(|variant| variant.name == *name);
        place.ok_or_else(|| format!("there is no variant {name:?}"))
    });
    let find = |(axis, value): (&String, &String)| {
        let place = spec.axes.iter().position(|one| one.name == *axis);
        let place = place.ok_or_else(|| format!("there is no axis {axis:?}"))?;
        let values = &spec.axes[place].values;
        let names: Vec<String> = values.iter().filter_map(display_name).collect();
        let found = values.iter().position(|one| display_name(one).as_ref() == Some(value));
        let absent =
            || format!("axis {axis:?} has no value {value:?}; its values are called {}", names.join(", "));
        Ok((place, found.ok_or_else(absent)?))
    };
    let values = exclusion.values.iter().map(find).collect::<Result<_, String>>()?;
    Ok(Excluded { variant: variant.transpose()?, values })
}

/// The exclusions, and what is wrong with them.
fn exclusions(spec: &BenchmarkSuiteSpec) -> (Vec<Excluded>, Vec<Problem>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for (index, exclusion) in spec.exclude.iter().enumerate() {
        match resolve(exclusion, spec) {
            Ok(excluded) => found.push(excluded),
            Err(why) => problems.push(Problem::NothingExcluded { index, why }),
        }
    }
    (found, problems)
}

/// More runs than `spec` allows, told before any is laid out.
fn too_many(spec: &BenchmarkSuiteSpec, excluded: &[Excluded]) -> Option<Problem> {
    let all = product(spec);
    let left = if all <= COUNTED && !excluded.is_empty() {
        let kept = |(variant, values): &(usize, Vec<usize>)| {
            !excluded.iter().any(|one| one.leaves_out(*variant, values))
        };
        combinations(spec).filter(kept).count() as u128
    } else {
        all
    };
    let runs = left.saturating_mul(u128::from(repetitions(spec)));
    if left > 0 && runs <= u128::try_from(spec.max_runs).unwrap_or_default() {
        return None;
    }
    if left == 0 {
        return Some(Problem::AllExcluded);
    }
    let axes = spec.axes.iter().map(|axis| format!(" x {} of {}", axis.values.len(), axis.name));
    let without = Some(all - left).filter(|without| *without > 0);
    let how = format!(
        "{} variants{}{} x {} repetitions",
        spec.variants.len(),
        axes.collect::<String>(),
        without.map(|number| format!(" less {number} excluded")).unwrap_or_default(),
        spec.repetitions
    );
    Some(Problem::TooMany { runs, how, most: spec.max_runs })
}

fn planned(suite: &BenchmarkSuite, variant: usize, values: Vec<usize>) -> PlannedCell {
    let spec = &suite.spec;
    let names: Vec<String> = spec
        .axes
        .iter()
        .zip(&values)
        .map(|(axis, place)| axis.values.get(*place).and_then(display_name).unwrap_or_default())
        .collect();
    let variant_name = spec.variants[variant].name.clone();
    let varied = spec.axes.iter().zip(&names).map(|(axis, value)| format!(" {}={value}", axis.name));
    let words = format!("{variant_name}{}", varied.collect::<String>());
    let suite = suite.name_any();
    let parts: Vec<&str> =
        [suite.as_str(), &variant_name].into_iter().chain(names.iter().map(String::as_str)).collect();
    let [a, b, c, d, ..] = digest(&parts);
    let digest = format!("{:08x}", u32::from_be_bytes([a, b, c, d]));
    PlannedCell { cell: Cell { variant: variant_name, values: names }, words, digest, variant, values }
}

/// The order of the runs of `cells`. Interleaved shuffles each repetition by digests of the
/// seed, so that it is the same with every version of every library.
fn order(spec: &BenchmarkSuiteSpec, cells: &[PlannedCell]) -> Vec<(usize, u32)> {
    let repetitions = 1..=repetitions(spec);
    if spec.order == Order::Sequential {
        let of_cell = |cell| repetitions.clone().map(move |repetition| (cell, repetition));
        return (0..cells.len()).flat_map(of_cell).collect();
    }
    let seed = spec.seed.to_string();
    let shuffled = |repetition: u32| {
        let number = repetition.to_string();
        let mut places: Vec<usize> = (0..cells.len()).collect();
        places.sort_by_cached_key(|place| digest(&[&seed, &number, &cells[*place].words]));
        places.into_iter().map(move |cell| (cell, repetition))
    };
    repetitions.flat_map(shuffled).collect()
}

/// Two combinations whose runs would have the same names.
fn same_name(cells: &[PlannedCell]) -> Option<Problem> {
    let mut seen: HashMap<&str, &PlannedCell> = HashMap::new();
    cells.iter().find_map(|cell| {
        let first = seen.insert(&cell.digest, cell)?;
        Some(Problem::SameName { first: first.words.clone(), second: cell.words.clone() })
    })
}

fn put(run: &mut Value, path: &str, value: &Value) -> Result<(), String> {
    let pointer = PointerBuf::parse(path.to_owned()).map_err(|error| error.to_string())?;
    run.assign(&pointer, value.clone()).map(|_| ()).map_err(|error| error.to_string())
}

/// All that is put into the run of `cell`, in order, with the place where it is written.
fn changes<'a>(
    spec: &'a BenchmarkSuiteSpec,
    cell: &'a PlannedCell,
) -> impl Iterator<Item = (String, &'a str, &'a Value)> {
    let patches = |field: String, patches: &'a [Patch]| {
        patches.iter().map(move |patch| (field.clone(), patch.path.as_str(), &patch.value))
    };
    let variant: &'a Variant = &spec.variants[cell.variant];
    let of_variant = patches(format!("spec.variants[{}].patches", variant.name), &variant.patches);
    let of_axes = spec.axes.iter().zip(&cell.values).filter_map(move |(axis, place)| {
        let (axis, value): (&'a Axis, _) = (axis, axis.values.get(*place)?);
        let field = format!("spec.axes[{}]", axis.name);
        let own = value.value.iter().flat_map({
            let field = field.clone();
            move |value| {
                axis.paths.iter().map({
                    let field = field.clone();
                    move |path| (format!("{field}.paths"), path.as_str(), value)
                })
            }
        });
        Some(own.chain(patches(format!("{field}.patches"), &value.patches)))
    });
    of_variant.chain(of_axes.flatten())
}

/// The spec of the runs of `cell`, as it is written.
fn written(spec: &BenchmarkSuiteSpec, cell: &PlannedCell) -> Result<Value, Problem> {
    let mut run = Map::clone(&spec.run.0);
    run.insert("target".to_owned(), Value::Object(spec.variants[cell.variant].target.0.clone()));
    let mut run = Value::Object(run);
    for (field, path, value) in changes(spec, cell) {
        let told = |why| Problem::Put { field, cell: cell.words.clone(), path: path.to_owned(), why };
        put(&mut run, path, value).map_err(told)?;
    }
    Ok(run)
}

fn decoded(spec: &BenchmarkSuiteSpec, cell: &PlannedCell) -> Result<BenchmarkRunSpec, Problem> {
    let written = written(spec, cell)?;
    serde_path_to_error::deserialize(&written).map_err(|error| Problem::Decode {
        cell: cell.words.clone(),
        path: error.path().to_string(),
        why: error.inner().to_string(),
    })
}

/// The spec of the runs of `cell`, if a run may be so.
fn judged(spec: &BenchmarkSuiteSpec, cell: &PlannedCell) -> Result<BenchmarkRunSpec, Problem> {
    let decoded = decoded(spec, cell)?;
    // What only a stored object has is of no concern to the rules.
    let mut run = BenchmarkRun::new("run", decoded);
    run.metadata.namespace = Some("default".to_owned());
    run.metadata.uid = Some("none".to_owned());
    let refused =
        |why: validate::Invalid| Problem::Refused { cell: cell.words.clone(), why: why.to_string() };
    validate::validate(&run).map_err(refused)?;
    Ok(run.spec)
}

/// What is wrong with the runs of `cells`: each cause once, with the first combination that
/// has it, and how many more do.
fn judge_all(spec: &BenchmarkSuiteSpec, cells: &[PlannedCell]) -> Vec<Problem> {
    let mut causes: BTreeMap<String, (Problem, usize)> = BTreeMap::new();
    for problem in cells.iter().filter_map(|cell| judged(spec, cell).err()) {
        let cause = match &problem {
            Problem::Put { path, why, .. } | Problem::Decode { path, why, .. } => format!("{path} {why}"),
            other => match other {
                Problem::Refused { why, .. } => why.clone(),
                other => other.to_string(),
            },
        };
        causes.entry(cause).or_insert((problem, 0)).1 += 1;
    }
    let with_count = |(mut problem, count): (Problem, usize)| {
        if let (
            Problem::Put { cell, .. } | Problem::Decode { cell, .. } | Problem::Refused { cell, .. },
            2..,
        ) = (&mut problem, count)
        {
            *cell = format!("{cell} (and of {} more)", count - 1);
        }
        problem
    };
    causes.into_values().map(with_count).collect()
}

fn decided_fields(spec: &BenchmarkSuiteSpec) -> impl Iterator<Item = Problem> {
    let there = DECIDED_BY_SUITE.iter().filter(|name| spec.run.0.contains_key(**name));
    there.map(|name| Problem::Decided { field: "spec.run".to_owned(), path: format!("/{name}") })
}

/// What of `suite` is to be measured, in which order; everything that is wrong with it
/// where it cannot be.
pub fn plan(suite: &BenchmarkSuite) -> Result<Plan, Invalid> {
    let spec = &suite.spec;
    let mut problems: BTreeSet<Problem> = axes::check(spec, &OF_RUN).into_iter().collect();
    problems.extend(decided_fields(spec));
    let (excluded, unmatched) = exclusions(spec);
    problems.extend(unmatched);
    problems.extend(too_many(spec, &excluded));
    let refuse = |problems: BTreeSet<Problem>| Invalid(problems.into_iter().collect());
    if !problems.is_empty() {
        return Err(refuse(problems));
    }
    let kept = combinations(spec)
        .filter(|(variant, values)| !excluded.iter().any(|one| one.leaves_out(*variant, values)));
    let cells: Vec<PlannedCell> = kept.map(|(variant, values)| planned(suite, variant, values)).collect();
    problems.extend(same_name(&cells));
    problems.extend(judge_all(spec, &cells));
    if !problems.is_empty() {
        return Err(refuse(problems));
    }
    let heads = spec.axes.iter().map(|axis| AxisHead {
        name: axis.name.clone(),
        values: axis.values.iter().filter_map(display_name).collect(),
    });
    let (axes, order) = (heads.collect(), order(spec, &cells));
    Ok(Plan { axes, cells, order, stem: stem(&suite.name_any()) })
}

impl Plan {
    /// The name of run `repetition` of `cell`.
    pub fn name(&self, cell: &PlannedCell, repetition: u32) -> String {
        format!("{}-{}-{repetition}", self.stem, cell.digest)
    }
}

/// The spec of the runs of `cell` of a suite that was planned.
pub fn spec_of(suite: &BenchmarkSuite, cell: &PlannedCell) -> Result<BenchmarkRunSpec, Invalid> {
    decoded(&suite.spec, cell).map_err(|problem| Invalid(vec![problem]))
}

/// `suite` with all its runs in the order in which they are to be made; everything that is
/// wrong with it where they cannot be.
pub fn expand(suite: &BenchmarkSuite) -> Result<Expanded, Invalid> {
    let plan = plan(suite)?;
    let specs: Vec<BenchmarkRunSpec> =
        plan.cells.iter().map(|cell| spec_of(suite, cell)).collect::<Result<_, _>>()?;
    let run = |(place, repetition): &(usize, u32)| {
        let cell = &plan.cells[*place];
        ChildRun {
            name: plan.name(cell, *repetition),
            cell: cell.cell.clone(),
            repetition: *repetition,
            spec: specs[*place].clone(),
        }
    };
    let runs = plan.order.iter().map(run).collect();
    Ok(Expanded { axes: plan.axes, runs })
}

#[cfg(test)]
pub(super) mod tests;
