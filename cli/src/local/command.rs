//! `dragstrip run --local`: the runs and suites of manifests, one after the other.

use super::{
    conduct::{passed, print_or_closed, ready, run_locally},
    options::Options,
    settings::{Settings, directory_of},
    suites,
};
use crate::{
    manifests::{
        check::{Object, Remark, Weight, check},
        documents,
    },
    output::{errors::Outcome, input, screen::Screen},
};
use dragstrip_crds::{BenchmarkRun, BenchmarkSuite, Datastore};
use kube::ResourceExt;
use std::{path::PathBuf, process::ExitCode};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// One line per error.
    #[error("{0}")]
    Invalid(String),
    #[error("the manifests declare no BenchmarkRun or BenchmarkSuite: add one, as in examples/local.yaml")]
    NoRun,
}

#[derive(Default)]
struct Manifests {
    datastores: Vec<Datastore>,
    runs: Vec<BenchmarkRun>,
    suites: Vec<BenchmarkSuite>,
    /// Notes for people, such as about objects of other projects.
    notes: Vec<String>,
}

/// The valid objects of `files`, in order.
fn read(files: &[PathBuf]) -> Outcome<Manifests> {
    let checked = check(documents::read(files)?);
    let lines = |weight: Weight| -> Vec<String> {
        checked.remarks.iter().filter(|remark| remark.weight == weight).map(Remark::to_string).collect()
    };
    if checked.errors() > 0 {
        return Err(Error::Invalid(lines(Weight::Error).join("\n")).into());
    }
    let mut manifests = Manifests { notes: lines(Weight::Note), ..Manifests::default() };
    for (_, object) in checked.objects {
        match object {
            Object::Datastore(datastore) => manifests.datastores.push(*datastore),
            Object::Run(run) => manifests.runs.push(*run),
            Object::Suite(suite) => manifests.suites.push(*suite),
        }
    }
    Ok(manifests)
}

/// Runs `runs` one after the other, and always prints their table; returns whether all passed.
async fn all(
    runs: &[BenchmarkRun],
    datastores: &[Datastore],
    settings: impl Fn(&str) -> Settings,
    screen: &mut Screen,
) -> Outcome<bool> {
    let (mut ended, mut failed) = (Vec::new(), None);
    for run in runs {
        let settings = settings(&run.name_any());
        if settings.stop.is_requested() {
            break;
        }
        match Box::pin(run_locally(run, datastores, &settings, screen)).await {
            Ok(raced) => ended.push(raced.run),
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    if !ended.is_empty() {
        print_or_closed(&input::text_report(&ended))?;
    }
    failed.map_or(Ok(ended.len() == runs.len() && ended.iter().all(passed)), Err)
}

/// Runs what the manifests declare. Exit code 0 if all passed, 1 if one did not.
pub async fn run(options: Options) -> Outcome<ExitCode> {
    let Manifests { datastores, runs, suites, notes } = read(&options.files)?;
    let declared = runs.len() + suites.len();
    if declared == 0 {
        return Err(Error::NoRun.into());
    }
    let settings = Settings::of(&options)?;
    let variants = suites.iter().flat_map(|suite| &suite.spec.variants);
    settings.check_names(variants.map(|variant| variant.name.as_str()))?;
    for run in &runs {
        ready(run, &datastores, &settings)?;
    }
    let plans = suites.iter().map(|suite| suites::plan(suite, &datastores, &settings));
    let plans = plans.collect::<Result<Vec<_>, _>>()?;
    let mut screen = Screen::default();
    for note in &notes {
        screen.step(note);
    }
    let of = |name: &str| {
        let output_directory = directory_of(options.output_directory.as_deref(), name, declared > 1);
        Settings { output_directory, ..settings.clone() }
    };
    let mut good = all(&runs, &datastores, of, &mut screen).await?;
    for (suite, plan) in suites.iter().zip(&plans) {
        if settings.stop.is_requested() {
            good = false;
            break;
        }
        good &= plan.race(&datastores, &of(&suite.name_any()), &mut screen).await?;
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
