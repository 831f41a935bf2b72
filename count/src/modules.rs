//! The modules that a crate compiles outside its tests, one per file: the tree that starts
//! at its roots. Modules written inside a file belong to that file's module.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use syn::{Attribute, Expr, ExprLit, Item, ItemMod, Lit, Meta};

/// One file and the module it holds.
pub struct Module {
    pub file: PathBuf,
    /// Names from the crate's root down; empty for the root itself.
    pub path: Vec<String>,
    /// Which root of the crate it belongs to.
    pub root: usize,
    pub text: String,
    pub syntax: syn::File,
}

/// Reads all modules reachable from `roots`.
pub fn read(roots: &[PathBuf]) -> Result<Vec<Module>> {
    let mut modules = Vec::new();
    for (root, file) in roots.iter().enumerate() {
        let folder = file.parent().context("a root has no folder")?.to_owned();
        let first = Place { file: file.clone(), path: Vec::new(), folder };
        read_tree(first, root, &mut modules)?;
    }
    Ok(modules)
}

/// A file to read, and the folder where the files of its child modules stand.
struct Place {
    file: PathBuf,
    path: Vec<String>,
    folder: PathBuf,
}

fn read_tree(first: Place, root: usize, modules: &mut Vec<Module>) -> Result<()> {
    let mut places = vec![first];
    while let Some(place) = places.pop() {
        let text = std::fs::read_to_string(&place.file)
            .with_context(|| format!("failed to read {}", place.file.display()))?;
        let syntax =
            syn::parse_file(&text).with_context(|| format!("failed to parse {}", place.file.display()))?;
        places.extend(children(&place, &syntax.items)?);
        modules.push(Module { file: place.file, path: place.path, root, text, syntax });
    }
    Ok(())
}

/// The files that `items` declare as modules, without those of tests.
fn children(place: &Place, items: &[Item]) -> Result<Vec<Place>> {
    let mut found = Vec::new();
    for item in items {
        let Item::Mod(module) = item else { continue };
        if is_test(&module.attrs) {
            continue;
        }
        let name = module.ident.to_string();
        let path = place.path.iter().cloned().chain([name.clone()]).collect();
        match &module.content {
            None => {
                let file = declared_file(place, module, &name)?;
                found.push(Place { file, path, folder: place.folder.join(&name) });
            }
            Some((_, items)) => {
                let inner = Place { file: place.file.clone(), path, folder: place.folder.join(&name) };
                found.extend(children(&inner, items)?);
            }
        }
    }
    Ok(found)
}

fn declared_file(place: &Place, module: &ItemMod, name: &str) -> Result<PathBuf> {
    if let Some(path) = module.attrs.iter().find_map(path_attribute) {
        return Ok(place.file.parent().unwrap_or(Path::new("")).join(path));
    }
    let candidates = [place.folder.join(format!("{name}.rs")), place.folder.join(name).join("mod.rs")];
    match candidates.into_iter().find(|file| file.exists()) {
        Some(file) => Ok(file),
        None => bail!("{}: module {name} has no file", place.file.display()),
    }
}

fn path_attribute(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// Whether `#[cfg(test)]`, alone or within `all(…)`, or `#[test]` leads an item.
pub fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string().replace(' ', "");
            condition == "test" || condition.starts_with("all(test,")
        }
        meta => meta.path().segments.last().is_some_and(|last| last.ident == "test"),
    })
}
