//! Lines and functions of one module's file.

use std::collections::BTreeSet;

use syn::{ImplItemFn, Item, ItemFn, Signature, TraitItemFn, spanned::Spanned, visit::Visit};

use crate::modules::{Module, is_test};

/// Lines by what they hold.
#[derive(Default, Clone, Copy)]
pub struct Lines {
    pub code: usize,
    pub comments: usize,
    pub blank: usize,
    pub tests: usize,
}

impl Lines {
    pub fn production(self) -> usize {
        self.code + self.comments + self.blank
    }

    pub fn add(&mut self, other: Self) {
        self.code += other.code;
        self.comments += other.comments;
        self.blank += other.blank;
        self.tests += other.tests;
    }
}

/// A production function: its name, the line where it begins, and its length in lines.
pub struct Function {
    pub name: String,
    pub line: usize,
    pub length: usize,
}

pub fn lines(module: &Module) -> Lines {
    let tests = test_lines(&module.syntax.items);
    let mut count = Lines::default();
    let mut in_block_comment = false;
    for (index, line) in module.text.lines().enumerate() {
        let line = line.trim();
        let is_comment = in_block_comment || line.starts_with("//") || line.starts_with("/*");
        in_block_comment = is_comment && !line.starts_with("//") && !line.contains("*/");
        let kind = match () {
            () if tests.contains(&(index + 1)) => &mut count.tests,
            () if line.is_empty() => &mut count.blank,
            () if is_comment => &mut count.comments,
            () => &mut count.code,
        };
        *kind += 1;
    }
    count
}

/// The numbers of the lines that stand in items for tests.
fn test_lines(items: &[Item]) -> BTreeSet<usize> {
    let mut lines = BTreeSet::new();
    for item in items {
        match item {
            item if is_test(attributes(item)) => {
                lines.extend(item.span().start().line..=item.span().end().line);
            }
            Item::Mod(module) => {
                lines.extend(module.content.iter().flat_map(|(_, items)| test_lines(items)));
            }
            _ => {}
        }
    }
    lines
}

pub fn attributes(item: &Item) -> &[syn::Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

pub fn functions(module: &Module) -> Vec<Function> {
    let mut visitor = Functions(Vec::new());
    visitor.visit_file(&module.syntax);
    visitor.0
}

struct Functions(Vec<Function>);

impl Functions {
    fn push(&mut self, signature: &Signature, whole: proc_macro2::Span) {
        let (line, end) = (signature.span().start().line, whole.end().line);
        self.0.push(Function { name: signature.ident.to_string(), line, length: end + 1 - line });
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.push(&item.sig, item.span());
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.push(&item.sig, item.span());
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if item.default.is_some() {
            self.push(&item.sig, item.span());
        }
        syn::visit::visit_trait_item_fn(self, item);
    }
}
