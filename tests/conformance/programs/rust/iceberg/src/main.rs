//! Reads Iceberg tables by the crate `iceberg`: a whole reader under test.

use std::fs::File;
use std::ops::Not;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use futures::TryStreamExt;
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::expr::{Predicate, Reference};
use iceberg::io::FileIO;
use iceberg::spec::{Datum, PrimitiveType, Schema, Type};
use iceberg::table::StaticTable;
use iceberg::{ErrorKind, TableIdent};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

#[path = "../../protocol.rs"]
mod protocol;
use protocol::{Refusal, serve};

impl From<iceberg::Error> for Refusal {
    fn from(error: iceberg::Error) -> Self {
        match error.kind() {
            ErrorKind::FeatureUnsupported => Self::unsupported(&error),
            kind => Self::error(kind, &error),
        }
    }
}

fn main() {
    let hello = json!({
        "version": "0.10.1", "language": "Rust", "homepage": "https://rust.iceberg.apache.org",
        "ops": ["read", "count"],
    });
    let runtime = Runtime::new().unwrap();
    serve(&hello, |asked| runtime.block_on(answer(asked)));
}

async fn answer(asked: &Value) -> Result<Value, Refusal> {
    if asked["table"]["format"] != "iceberg" {
        return Err(Refusal::unsupported("only Iceberg tables"));
    }
    let place = asked["table"]["metadata_path"].as_str().unwrap();
    let name = TableIdent::from_strs(["under", "test"])?;
    let table = StaticTable::from_metadata_file(place, name, FileIO::new_with_fs()).await?;
    let metadata = table.metadata();
    let (at, mut scan) = (&asked["table"]["at"], table.scan());
    let snapshot = match at["kind"].as_str() {
        None => metadata.current_snapshot(),
        Some("snapshot_id") => metadata.snapshot_by_id(at["value"].as_i64().unwrap()),
        Some("ref") => metadata.snapshot_for_ref(at["value"].as_str().unwrap()),
        Some(kind) => {
            return Err(Refusal::unsupported(format!(
                "the crate finds no snapshot by {kind}"
            )));
        }
    };
    if !at.is_null() {
        let found = snapshot
            .ok_or_else(|| Refusal::error("NotFound", format!("there is no snapshot {at}")))?;
        scan = scan.snapshot_id(found.snapshot_id());
    }
    let schema = match snapshot {
        Some(found) => found.schema(&metadata)?,
        None => metadata.current_schema().clone(),
    };
    if let Some(columns) = asked["columns"].as_array() {
        scan = scan.select(columns.iter().filter_map(Value::as_str));
    }
    match (&asked["where"], &asked["predicate"]) {
        (Value::Null, _) => {}
        (text, Value::Null) => {
            return Err(Refusal::unsupported(format!("no expression says {text}")));
        }
        (_, said) => scan = scan.with_filter(predicate(said, &schema)?),
    }
    let rows: Vec<RecordBatch> = scan.build()?.to_arrow().await?.try_collect().await?;
    if asked["op"] == "count" {
        return Ok(json!({"count": rows.iter().map(RecordBatch::num_rows).sum::<usize>()}));
    }
    write(&rows, &schema, asked).map_err(|error| Refusal::error("ArrowError", error))
}

/// Writes the rows into the output; where there are none, the columns of the schema.
fn write(
    rows: &[RecordBatch],
    schema: &Schema,
    asked: &Value,
) -> Result<Value, Box<dyn std::error::Error>> {
    let mut shown = Arc::new(schema_to_arrow_schema(schema)?);
    if let Some(columns) = asked["columns"].as_array() {
        let places = columns
            .iter()
            .filter_map(Value::as_str)
            .map(|name| shown.index_of(name));
        shown = Arc::new(shown.project(&places.filter_map(Result::ok).collect::<Vec<_>>())?);
    }
    shown = rows.first().map_or(shown, RecordBatch::schema);
    let mut writer =
        StreamWriter::try_new(File::create(asked["output"].as_str().unwrap())?, &shown)?;
    for batch in rows {
        writer.write(batch)?;
    }
    writer.finish()?;
    Ok(json!({"rows": asked["output"]}))
}

/// The filter as the crate has filters.
fn predicate(said: &Value, schema: &Schema) -> Result<Predicate, Refusal> {
    let part = |key: &str| predicate(&said[key], schema);
    let name = said["term"].as_str().unwrap_or_default();
    let column = || Reference::new(name);
    let value = || literal(&said["value"], name, schema);
    Ok(match said["type"].as_str().unwrap() {
        "and" => part("left")?.and(part("right")?),
        "or" => part("left")?.or(part("right")?),
        "not" => part("child")?.not(),
        "is-null" => column().is_null(),
        "in" => {
            let values = said["values"]
                .as_array()
                .unwrap()
                .iter()
                .map(|value| literal(value, name, schema));
            column().is_in(values.collect::<Result<Vec<_>, _>>()?)
        }
        "eq" => column().equal_to(value()?),
        "not-eq" => column().not_equal_to(value()?),
        "lt" => column().less_than(value()?),
        "lt-eq" => column().less_than_or_equal_to(value()?),
        "gt" => column().greater_than(value()?),
        "gt-eq" => column().greater_than_or_equal_to(value()?),
        "starts-with" => column().starts_with(value()?),
        kind => return Err(Refusal::unsupported(format!("the crate has no {kind}"))),
    })
}

/// A literal in the type of the column that it is compared with.
fn literal(value: &Value, name: &str, schema: &Schema) -> Result<Datum, Refusal> {
    let wrong = || Refusal::unsupported(format!("no literal of the type of {name} is {value}"));
    let field = schema
        .field_by_name(name)
        .ok_or_else(|| Refusal::error("NotFound", format!("no column {name}")))?;
    let Type::Primitive(kind) = field.field_type.as_ref() else {
        return Err(wrong());
    };
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_string);
    Ok(match kind {
        PrimitiveType::Boolean => Datum::bool(value.as_bool().ok_or_else(wrong)?),
        PrimitiveType::Int => Datum::int(text.parse::<i32>().map_err(|_| wrong())?),
        PrimitiveType::Long => Datum::long(text.parse::<i64>().map_err(|_| wrong())?),
        PrimitiveType::Float => Datum::float(text.parse::<f32>().map_err(|_| wrong())?),
        PrimitiveType::Double => Datum::double(text.parse::<f64>().map_err(|_| wrong())?),
        PrimitiveType::Date => Datum::date_from_str(text)?,
        PrimitiveType::Decimal { .. } => Datum::decimal_from_str(text)?.to(&field.field_type)?,
        PrimitiveType::String => Datum::string(text),
        PrimitiveType::Uuid => Datum::uuid_from_str(text)?,
        _ => return Err(wrong()),
    })
}
