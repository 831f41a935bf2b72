//! A suite to its runs: each variant with each value of each axis, patched into the template,
//! decoded and judged as a BenchmarkRun is, in the order in which they are to be made. Pure.

mod cell;
mod render;
mod thresholds;

pub use cell::PlannedCell;
use cell::digest;

use super::{
    axes::{self, display_name},
    paths::OF_RUN,
};
use crate::run::validate::problem;
use dragstrip_crds::{
    BenchmarkRunSpec, BenchmarkSuite, BenchmarkSuiteSpec,
    suite::{DECIDED_BY_SUITE, Exclusion, Order},
};
use dragstrip_report::document::{AxisHead, Cell};
use kube::ResourceExt;
use std::{
    collections::{BTreeSet, HashMap},
    fmt,
};

/// What a suite measures, without the specs of its runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub axes: Vec<AxisHead>,
    /// Every combination, in the order of the declaration.
    pub cells: Vec<PlannedCell>,
    /// The runs in the order of their creation: a combination's place in `cells`, and its run, from 1.
    pub order: Vec<(usize, u32)>,
    /// Why no further run can be created in a suite that has started under another operator.
    pub unmeasurable: Option<Invalid>,
    stem: String,
}

/// A suite that cannot be measured as declared: everything that is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Invalid(pub Vec<String>);

/// Problems in one text; the others are counted.
const SHOWN: usize = 10;

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0[..self.0.len().min(SHOWN)].join("; "))?;
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// A rule for runs that depends on their suite.
pub type Allowed<'a> = &'a dyn Fn(&BenchmarkRunSpec) -> Result<(), String>;

#[derive(Debug, Clone, PartialEq)]
pub struct ChildRun {
    /// Its name: at most 33 characters, unique in the suite.
    pub name: String,
    pub cell: Cell,
    /// Which of the combination's runs it is, from 1.
    pub repetition: u32,
    pub spec: BenchmarkRunSpec,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Expanded {
    pub axes: Vec<AxisHead>,
    /// The runs, in the order in which they are to be made.
    pub runs: Vec<ChildRun>,
}

/// How many combinations are counted one by one if some are excluded; beyond it the product is shown.
const COUNTED: u128 = 100_000;

/// No suite has more, since none may have more runs.
const MOST_CELLS: usize = 10_000;

/// Characters of the suite's name that are in the names of its runs: with the digest and a
/// repetition of two digits 32, one less than a run's name may have.
const STEM: usize = 20;

fn stem(suite: &str) -> String {
    let plain: String = suite.chars().map(|letter| if letter == '.' { '-' } else { letter }).collect();
    plain.chars().take(STEM).collect::<String>().trim_end_matches('-').to_owned()
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

/// The combinations that no exclusion of `spec` leaves out.
fn included(spec: &BenchmarkSuiteSpec) -> impl Iterator<Item = (usize, Vec<usize>)> {
    let names: Vec<Vec<_>> =
        spec.axes.iter().map(|axis| axis.values.iter().map(display_name).collect()).collect();
    let leaves_out = move |exclusion: &Exclusion, variant: usize, values: &[usize]| {
        let has = |(name, value): (&String, &String)| {
            let mut places = spec.axes.iter().zip(&names).zip(values);
            places.any(|((axis, names), place)| axis.name == *name && names[*place].as_ref() == Some(value))
        };
        exclusion.variant.as_ref().is_none_or(|name| spec.variants[variant].name == *name)
            && exclusion.values.iter().all(has)
    };
    combinations(spec).filter(move |(variant, values)| {
        !spec.exclude.iter().any(|exclusion| leaves_out(exclusion, *variant, values))
    })
}

/// Which name in `exclusion` does not exist.
fn unmatched(exclusion: &Exclusion, spec: &BenchmarkSuiteSpec) -> Option<String> {
    let exists = |name: &str| spec.variants.iter().any(|variant| variant.name == name);
    if let Some(name) = exclusion.variant.as_deref().filter(|name| !exists(name)) {
        let names: Vec<&str> = spec.variants.iter().map(|variant| variant.name.as_str()).collect();
        return Some(format!("there is no variant {name:?}; there are {}", names.join(", ")));
    }
    exclusion.values.iter().find_map(|(name, value)| {
        let Some(axis) = spec.axes.iter().find(|axis| axis.name == *name) else {
            return Some(format!("there is no axis {name:?}"));
        };
        let names: Vec<String> = axis.values.iter().filter_map(display_name).collect();
        (!names.contains(value)).then(|| {
            format!("axis {name:?} has no value {value:?}; its values are called {}", names.join(", "))
        })
    })
}

/// Refuses more runs than `spec` allows, before any is laid out.
fn too_many(spec: &BenchmarkSuiteSpec) -> Option<String> {
    let all = product(spec);
    let counted = all <= COUNTED && !spec.exclude.is_empty();
    let left = if counted { included(spec).count() as u128 } else { all };
    let runs = left.saturating_mul(u128::from(repetitions(spec)));
    if left > 0 && runs <= u128::try_from(spec.max_runs).unwrap_or_default() {
        return None;
    }
    if left == 0 {
        return Some("spec.exclude leaves every combination out: nothing would be measured".to_owned());
    }
    let axes = spec.axes.iter().map(|axis| format!(" x {} of {}", axis.values.len(), axis.name));
    let without = if all > left { format!(" less {} excluded", all - left) } else { String::new() };
    Some(format!(
        "{runs} runs ({} variants{}{without} x {} repetitions), and spec.maxRuns is {}: leave values out, lower repetitions, or raise maxRuns if that is meant",
        spec.variants.len(),
        axes.collect::<String>(),
        spec.repetitions,
        spec.max_runs
    ))
}

/// Most bytes of the specs of all combinations together: to render and check them takes a second.
const MOST_RENDERED: u128 = 64 << 20;

/// Refuses combinations whose specs take too long to render, before any is.
fn too_much(spec: &BenchmarkSuiteSpec) -> Option<String> {
    let size =
        |value: &dyn Fn() -> serde_json::Result<Vec<u8>>| value().map_or(usize::MAX, |json| json.len());
    let template = size(&|| serde_json::to_vec(&spec.run));
    let variant = spec.variants.iter().map(|it| size(&|| serde_json::to_vec(it))).max().unwrap_or(0);
    let axes = spec.axes.iter().map(|axis| {
        let largest = axis.values.iter().map(|it| size(&|| serde_json::to_vec(it))).max().unwrap_or(0);
        largest.saturating_mul(axis.paths.len().max(1))
    });
    let each = axes.fold(template.saturating_add(variant), usize::saturating_add);
    let cells = product(spec).min(MOST_CELLS as u128);
    let all = cells.saturating_mul(each as u128);
    (all > MOST_RENDERED).then(|| {
        format!(
            "{cells} combinations of a spec.run of {each} bytes with its patches come to {} MiB, and {} are rendered at most: leave values out, shorten the template, or make several suites",
            all >> 20,
            MOST_RENDERED >> 20
        )
    })
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
    let (cell, given_spec) = (Cell { variant: variant_name, values: names }, String::new());
    PlannedCell { cell, words, digest, given_spec, variant, values }
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
fn same_name(cells: &[PlannedCell]) -> Option<String> {
    let mut seen: HashMap<&str, &PlannedCell> = HashMap::new();
    cells.iter().find_map(|cell| {
        let first = seen.insert(&cell.digest, cell)?;
        Some(format!(
            "the runs of {} and of {} would have the same name: rename a variant or a value",
            first.words, cell.words
        ))
    })
}

fn decided_fields(spec: &BenchmarkSuiteSpec) -> impl Iterator<Item = String> {
    let there = DECIDED_BY_SUITE.iter().filter(|name| spec.run.0.contains_key(**name));
    there.map(|name| axes::decided_by_suite("spec.run", &format!("/{name}")))
}

/// Whether two combinations are declared alike, to see how much equal measurements differ.
fn is_meant(spec: &BenchmarkSuiteSpec, one: &PlannedCell, other: &PlannedCell) -> bool {
    let declared = |cell: &PlannedCell| spec.variants.get(cell.variant).map(|it| (&it.target, &it.patches));
    one.variant != other.variant && one.values == other.values && declared(one) == declared(other)
}

/// What is wrong with the runs of `cells`, and their phases.
fn judge(
    spec: &BenchmarkSuiteSpec,
    cells: &mut [PlannedCell],
    allowed: Allowed<'_>,
) -> (Vec<String>, BTreeSet<String>) {
    let (mut seen, mut phases) = (HashMap::<[u8; 32], PlannedCell>::new(), BTreeSet::new());
    let mut alike = None;
    let mut problems = render::render(spec, cells, |cell, run| {
        problem(&run).map_or(Ok(()), |problem| Err(format!("spec.{problem}")))?;
        allowed(&run)?;
        phases.extend(run.phases.iter().map(|phase| phase.name.clone()));
        // A spec that came as JSON has a JSON form.
        let spec_digest = digest(&[&serde_json::to_string(&run).unwrap_or_default()]);
        if let Some(first) =
            seen.insert(spec_digest, cell.clone()).filter(|first| !is_meant(spec, first, cell))
        {
            alike.get_or_insert_with(|| format!(
                "{} and {} are the same combination (an axis may overwrite what distinguishes them): remove one; to see how equal measurements differ, declare two variants with the same target and patches",
                first.words, cell.words
            ));
        }
        Ok(())
    });
    problems.extend(alike);
    (problems, phases)
}

/// The combinations and the order of their runs, as they are declared.
fn layout(suite: &BenchmarkSuite) -> Plan {
    let spec = &suite.spec;
    let included = included(spec).take(MOST_CELLS);
    let cells: Vec<PlannedCell> = included.map(|(variant, values)| planned(suite, variant, values)).collect();
    let heads = spec.axes.iter().map(|axis| AxisHead {
        name: axis.name.clone(),
        values: axis.values.iter().filter_map(display_name).collect(),
    });
    let (axes, order) = (heads.collect(), order(spec, &cells));
    Plan { axes, cells, order, unmeasurable: None, stem: stem(&suite.name_any()) }
}

/// What `suite`, whose runs must be `allowed`, measures, in order; the error is all that is wrong.
pub fn plan(suite: &BenchmarkSuite, allowed: Allowed<'_>) -> Result<Plan, Invalid> {
    let spec = &suite.spec;
    let mut problems: BTreeSet<String> = axes::check(spec, &OF_RUN).into_iter().collect();
    problems.extend(decided_fields(spec));
    let excluded = spec.exclude.iter().enumerate();
    problems.extend(excluded.filter_map(|(index, exclusion)| {
        Some(format!("spec.exclude[{index}] leaves nothing out: {}", unmatched(exclusion, spec)?))
    }));
    problems.extend(too_many(spec));
    problems.extend(too_much(spec));
    if problems.is_empty() {
        let mut plan = layout(suite);
        problems.extend(same_name(&plan.cells));
        let (of_runs, phases) = judge(spec, &mut plan.cells, allowed);
        problems.extend(of_runs);
        if problems.is_empty() {
            problems.extend(thresholds::problems(spec, &plan, &phases));
        }
        if problems.is_empty() {
            return Ok(plan);
        }
    }
    Err(Invalid(problems.into_iter().collect()))
}

/// What `suite` measures, which was valid when it started. Rules of a later operator do not count:
/// only runs that are not `allowed`, or that cannot be decoded, end it, and the plan says so.
pub fn plan_of_started(suite: &BenchmarkSuite, allowed: Allowed<'_>) -> Plan {
    let mut plan = layout(suite);
    let problems = render::render(&suite.spec, &mut plan.cells, |_, run| allowed(&run));
    plan.unmeasurable = (!problems.is_empty()).then_some(Invalid(problems));
    plan
}

impl Plan {
    pub fn name(&self, cell: &PlannedCell, repetition: u32) -> String {
        format!("{}-{}-{repetition}", self.stem, cell.digest)
    }

    /// The combination of each run by the run's name.
    pub fn names(&self) -> HashMap<String, &PlannedCell> {
        let named = |(place, repetition): &(usize, u32)| {
            let cell = &self.cells[*place];
            (self.name(cell, *repetition), cell)
        };
        self.order.iter().map(named).collect()
    }
}

/// The spec of the runs of `cell` of a suite that was planned.
pub fn spec_of(suite: &BenchmarkSuite, cell: &PlannedCell) -> Result<BenchmarkRunSpec, Invalid> {
    render::decoded(&suite.spec, cell).map_err(|problem| Invalid(vec![problem]))
}

/// `suite` with all its runs in order; the error is everything that is wrong with it.
pub fn expand(suite: &BenchmarkSuite) -> Result<Expanded, Invalid> {
    let plan = plan(suite, &|_| Ok(()))?;
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
