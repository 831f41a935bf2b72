//! Which modules of its own crate a module refers to: by `use`, by a path in code, or by a
//! path inside a macro. A declaration `mod child;` alone is not a reference.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::{Item, ItemMod, Macro, UseTree, Visibility, visit::Visit};

use crate::{
    modules::{Module, is_test},
    size::attributes,
};

/// Returns, for each module, the indices of the modules it refers to.
pub fn edges(modules: &[Module]) -> Vec<BTreeSet<usize>> {
    modules
        .iter()
        .enumerate()
        .map(|(index, module)| {
            let mut references =
                References { modules, root: module.root, here: module.path.clone(), found: BTreeSet::new() };
            references.visit_file(&module.syntax);
            references.found.remove(&index);
            references.found
        })
        .collect()
}

struct References<'a> {
    modules: &'a [Module],
    root: usize,
    /// The module around the visited item, inline modules included.
    here: Vec<String>,
    found: BTreeSet<usize>,
}

impl References<'_> {
    fn refer(&mut self, segments: &[String]) {
        let Some(absolute) = self.absolute(segments) else { return };
        // The longest prefix that is a module with a file of its own.
        let target = (0..=absolute.len()).rev().find_map(|length| self.module(&absolute[..length]));
        self.found.extend(target);
    }

    fn absolute(&self, segments: &[String]) -> Option<Vec<String>> {
        let (first, rest) = segments.split_first()?;
        let mut base = match first.as_str() {
            "crate" => Vec::new(),
            "self" if !rest.is_empty() => self.here.clone(),
            "super" => {
                let supers = segments.iter().take_while(|segment| *segment == "super").count();
                self.here[..self.here.len().checked_sub(supers)?].to_vec()
            }
            name => {
                let child: Vec<String> = self.here.iter().cloned().chain([name.to_owned()]).collect();
                self.module(&child)?;
                self.here.clone()
            }
        };
        base.extend(
            segments.iter().filter(|part| !["crate", "self", "super"].contains(&part.as_str())).cloned(),
        );
        Some(base)
    }

    fn module(&self, path: &[String]) -> Option<usize> {
        self.modules.iter().position(|module| module.root == self.root && module.path == path)
    }

    fn refer_tree(&mut self, prefix: &[String], tree: &UseTree) {
        let with = |name: &syn::Ident| prefix.iter().cloned().chain([name.to_string()]).collect::<Vec<_>>();
        match tree {
            UseTree::Path(path) => self.refer_tree(&with(&path.ident), &path.tree),
            UseTree::Name(name) => self.refer(&with(&name.ident)),
            UseTree::Rename(name) => self.refer(&with(&name.ident)),
            UseTree::Glob(_) => self.refer(prefix),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.refer_tree(prefix, tree)),
        }
    }

    /// Reads the paths among tokens that syn does not parse.
    fn refer_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(name) if colons == 2 && !path.is_empty() => {
                    path.push(name.to_string());
                    colons = 0;
                }
                other => {
                    self.refer_path(&std::mem::take(&mut path));
                    colons = 0;
                    match other {
                        TokenTree::Ident(name) => path.push(name.to_string()),
                        TokenTree::Group(group) => self.refer_tokens(group.stream()),
                        _ => {}
                    }
                }
            }
        }
        self.refer_path(&path);
    }

    /// A single name is a local variable or an imported item, never a module.
    fn refer_path(&mut self, segments: &[String]) {
        if segments.len() > 1 {
            self.refer(segments);
        }
    }
}

impl<'ast> Visit<'ast> for References<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.here.push(item.ident.to_string());
        syn::visit::visit_item_mod(self, item);
        self.here.pop();
    }

    fn visit_use_tree(&mut self, tree: &'ast UseTree) {
        self.refer_tree(&[], tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.refer_path(&segments);
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        self.refer_tokens(item.tokens.clone());
    }

    // `pub(in crate::run)` says who may use an item, not what the item needs.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}
