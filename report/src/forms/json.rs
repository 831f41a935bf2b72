//! The report as JSON: the document itself, with the schema docs/report.schema.json. Pure.

use crate::document::Document;
use schemars::{
    Schema, schema_for,
    transform::{RecursiveTransform, Transform},
};
use serde_json::Value;

/// The document as JSON; if that fails, an object with nothing but `error`.
pub fn render(document: &Document) -> String {
    serde_json::to_string_pretty(document)
        .unwrap_or_else(|error| serde_json::json!({"error": error.to_string()}).to_string())
}

pub fn schema() -> Schema {
    let mut schema = schema_for!(Document);
    RecursiveTransform(without_null).transform(&mut schema);
    schema
}

/// A document has no null: it omits absent members.
fn without_null(schema: &mut Schema) {
    for (keyword, null) in [("type", Value::from("null")), ("anyOf", serde_json::json!({"type": "null"}))] {
        if let Some(Value::Array(choices)) = schema.get_mut(keyword) {
            choices.retain(|choice| *choice != null);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::tests::{invalid_run, suite, two_axes};

    /// Documents of all kinds, one of them with an interval that has no upper end.
    fn documents() -> [Document; 4] {
        let mut open = suite();
        open.rows.iter_mut().find_map(|row| row.comparison.as_mut()).unwrap().ratio.high = f64::INFINITY;
        [suite(), two_axes(), invalid_run(), open]
    }

    #[test]
    fn the_schema_describes_every_document() {
        let mut schemas = boon::Schemas::new();
        let mut compiler = boon::Compiler::new();
        compiler.add_resource("report.json", schema().to_value()).unwrap();
        let schema = compiler.compile("report.json", &mut schemas).unwrap();
        for document in documents() {
            let value: Value = serde_json::from_str(&render(&document)).unwrap();
            assert!(!value.to_string().contains("null"), "an absent member is not omitted: {value}");
            assert!(schemas.validate(&value, schema).is_ok(), "{:?}", schemas.validate(&value, schema));
        }
    }

    #[test]
    fn a_document_is_read_as_it_was_written() {
        for document in documents() {
            let read: Document = serde_json::from_str(&render(&document)).unwrap();
            assert_eq!(read, document);
        }
    }
}
