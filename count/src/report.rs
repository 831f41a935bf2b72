//! Measures crates and writes the measures as Markdown tables.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use walkdir::WalkDir;

use crate::{
    crates::Crate,
    cycles::cycles,
    imports,
    modules::{self, Module},
    size::{self, Function, Lines},
};

/// How many modules of a cycle the table names.
const SHOWN_MEMBERS: usize = 12;

/// What one crate measures.
pub struct Measured {
    name: String,
    lines: Lines,
    functions: Vec<(PathBuf, Function)>,
    modules: usize,
    /// The names of the modules of each cycle, the largest cycle first.
    cycles: Vec<Vec<String>>,
}

pub fn measure(krate: &Crate) -> Result<Measured> {
    let modules = modules::read(&krate.roots)?;
    let mut lines = Lines::default();
    let mut functions = Vec::new();
    for module in first_of_each_file(&modules) {
        lines.add(size::lines(module));
        functions.extend(size::functions(module).into_iter().map(|found| (module.file.clone(), found)));
    }
    lines.tests += test_lines(krate, &modules)?;
    let cycles = cycles(&imports::edges(&modules));
    let names = |members: Vec<usize>| members.into_iter().map(|index| name(&modules[index])).collect();
    Ok(Measured {
        name: krate.name.clone(),
        lines,
        functions,
        modules: modules.len(),
        cycles: cycles.into_iter().map(names).collect(),
    })
}

/// A library and a program may share a file; its lines count once.
fn first_of_each_file(modules: &[Module]) -> Vec<&Module> {
    let mut seen = BTreeSet::new();
    modules.iter().filter(|module| seen.insert(&module.file)).collect()
}

/// Lines of all files in the crate's folder that its library and programs do not compile.
fn test_lines(krate: &Crate, modules: &[Module]) -> Result<usize> {
    let production: BTreeSet<&Path> = modules.iter().map(|module| module.file.as_path()).collect();
    let mut lines = 0;
    let below = |path: &Path| path != krate.directory && path.join("Cargo.toml").exists();
    let entries = WalkDir::new(&krate.directory).into_iter();
    for entry in entries.filter_entry(|entry| !below(entry.path()) && entry.file_name() != "node_modules") {
        let path = entry.context("failed to list a crate's files")?.into_path();
        if path.extension().is_some_and(|extension| extension == "rs") && !production.contains(path.as_path())
        {
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("failed to read {}", path.display()))?;
            lines += text.lines().count();
        }
    }
    Ok(lines)
}

fn name(module: &Module) -> String {
    if module.path.is_empty() { "crate".to_owned() } else { module.path.join("::") }
}

/// The whole report: a table of sizes, and the cycles of modules.
pub fn markdown(crates: &[Measured]) -> String {
    let mut text = String::from(
        "| Crate | Production lines | of them code | comments | Test lines | Functions | Median | p95 | Longest |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|---|\n",
    );
    for one in crates {
        text += &row(&one.name, one.lines, &one.functions.iter().collect::<Vec<_>>());
    }
    let mut total = Lines::default();
    for one in crates {
        total.add(one.lines);
    }
    let functions: Vec<_> = crates.iter().flat_map(|one| &one.functions).collect();
    text += &row("**Total**", total, &functions);
    text += "\n| Crate | Modules | Cycles | Modules in cycles | Largest cycle |\n|---|--:|--:|--:|---|\n";
    for one in crates.iter().filter(|one| one.modules > 0) {
        text += &cycle_row(one);
    }
    text
}

fn row(name: &str, lines: Lines, functions: &[&(PathBuf, Function)]) -> String {
    let mut lengths: Vec<usize> = functions.iter().map(|(_, function)| function.length).collect();
    lengths.sort_unstable();
    let at = |percent: usize| lengths.get(lengths.len().saturating_sub(1) * percent / 100).copied();
    let cell = |number: Option<usize>| number.map_or(String::new(), |number| number.to_string());
    let longest =
        functions.iter().max_by_key(|(_, function)| function.length).map_or(String::new(), |longest| {
            let (file, Function { name, line, length }) = longest;
            format!("{length}: `{name}` at {}:{line}", relative(file).display())
        });
    format!(
        "| {name} | {} | {} | {} | {} | {} | {} | {} | {longest} |\n",
        lines.production(),
        lines.code,
        lines.comments,
        lines.tests,
        lengths.len(),
        cell(at(50)),
        cell(at(95)),
    )
}

fn cycle_row(one: &Measured) -> String {
    let members: usize = one.cycles.iter().map(Vec::len).sum();
    let largest = one.cycles.first().map_or(String::new(), |largest| {
        let shown = largest.iter().take(SHOWN_MEMBERS).cloned().collect::<Vec<_>>().join(", ");
        let more = if largest.len() > SHOWN_MEMBERS { ", …" } else { "" };
        format!("{}: {shown}{more}", largest.len())
    });
    format!("| {} | {} | {} | {members} | {largest} |\n", one.name, one.modules, one.cycles.len())
}

fn relative(file: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    file.strip_prefix(here).unwrap_or(file).to_owned()
}
