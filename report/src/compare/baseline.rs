//! Finds the counterpart of each row in the baseline. Pure.

use crate::{
    document::{Cell, Document, Row},
    input::BaselineInput,
    published,
    select::{RowIndex, all_cells, variants},
};
use std::collections::BTreeMap;

type Key = (Cell, String, String, String);

fn key(cell: &Cell, row: &Row) -> Key {
    (cell.clone(), row.phase.clone(), row.operation.clone(), row.metric.clone())
}

pub struct Baseline<'a> {
    pub name: String,
    pub kind: String,
    /// The document with the baseline's runs; `None` if the baseline is a published table or part
    /// of the report itself.
    pub other: Option<&'a Document>,
    pub table: Option<&'a published::Table>,
    /// The combination in the baseline that each combination here is compared with.
    pub counterparts: BTreeMap<Cell, Cell>,
    rows: BTreeMap<Key, Row>,
}

pub enum Counterpart<'a> {
    Own,
    Row(&'a Row),
    Published(&'a published::Figure),
}

impl<'a> Baseline<'a> {
    pub fn of(document: &Document, baseline: &'a BaselineInput) -> Self {
        let cells = all_cells(document);
        let rows = |document: &Document| -> BTreeMap<Key, Row> {
            document.rows.iter().map(|row| (key(&row.cell, row), row.clone())).collect()
        };
        let of = |name: &str, kind: &str| Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            other: None,
            table: None,
            counterparts: cells.iter().map(|cell| (Cell::clone(cell), Cell::clone(cell))).collect(),
            rows: BTreeMap::new(),
        };
        let within = |name: &str, kind: &str, variant: &dyn Fn(&str) -> String| {
            let counterpart =
                |cell: &Cell| Cell { variant: variant(&cell.variant), values: cell.values.clone() };
            let counterparts = cells.iter().map(|cell| (Cell::clone(cell), counterpart(cell))).collect();
            Self { rows: rows(document), counterparts, ..of(name, kind) }
        };
        match baseline {
            BaselineInput::Variant(name) => within(name, "variant", &|_| name.clone()),
            BaselineInput::Above => within("above", "above", &|variant| {
                let variants = variants(document);
                let pair = variants.windows(2).find(|pair| pair[1] == variant);
                pair.map_or(variant, |pair| pair[0]).to_owned()
            }),
            BaselineInput::Run(name) => within(name, "run", &|_| name.clone()),
            BaselineInput::Published { name, table } => Self { table: Some(table), ..of(name, "published") },
            BaselineInput::Report { kind, document: other } => {
                let mut all = of(&other.title, kind);
                // Two single runs are compared whatever their names are.
                if let ([here], [there]) = (cells.as_slice(), all_cells(other).as_slice()) {
                    all.counterparts = [(Cell::clone(here), Cell::clone(there))].into();
                }
                Self { rows: rows(other), other: Some(other), ..all }
            }
        }
    }

    /// Whether the baseline is part of the report itself.
    pub fn is_within(&self) -> bool {
        self.other.is_none() && self.table.is_none()
    }

    /// Whether the baseline is one of several runs that declare no difference but the server.
    pub fn is_one_of_several_runs(&self) -> bool {
        self.is_within() && self.kind == "run"
    }

    pub fn is_own(&self, cell: &Cell) -> bool {
        self.is_within() && self.counterparts.get(cell) == Some(cell)
    }

    pub fn counterpart(&self, row: &Row, index: &RowIndex<'_>) -> Option<Counterpart<'_>> {
        if let Some(table) = self.table {
            let single = index.has_single_operation(&row.cell, &row.phase);
            return table.find(row, single).map(Counterpart::Published);
        }
        if self.is_own(&row.cell) {
            return Some(Counterpart::Own);
        }
        let cell = self.counterparts.get(&row.cell)?;
        self.rows.get(&key(cell, row)).map(Counterpart::Row)
    }
}
