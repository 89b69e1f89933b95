//! A complete reader under test for Iceberg tables with the crate `iceberg`.

use std::fs::File;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::cast;
use arrow_cast::parse::string_to_timestamp_nanos;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, SchemaRef as ArrowSchemaRef};
use futures::TryStreamExt;
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::expr::{Predicate, Reference};
use iceberg::io::FileIO;
use iceberg::metadata_columns::{get_metadata_field, get_metadata_field_id};
use iceberg::spec::{Datum, PrimitiveType, Schema, TableMetadata};
use iceberg::table::StaticTable;
use iceberg::{Error, ErrorKind, TableIdent};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

mod protocol;
use protocol::{Refusal, serve};

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::FeatureUnsupported => Self::unsupported(error),
            kind => Self::error(kind, error),
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
    let name = TableIdent::from_strs(["read", "table"])?;
    let table = StaticTable::from_metadata_file(place, name, FileIO::new_with_fs()).await?;
    let metadata = table.metadata();
    let mut scan = table.scan();
    let mut snapshot = metadata.current_snapshot();
    if let Some(id) = snapshot_id(asked, &metadata)? {
        scan = scan.snapshot_id(id);
        snapshot = metadata.snapshot_by_id(id);
    }
    let schema = match snapshot {
        Some(snapshot) => snapshot.schema(&metadata)?,
        None => metadata.current_schema().clone(),
    };
    if let Some(filter) = filter(asked, &schema)? {
        scan = scan.with_filter(filter);
    }
    if asked["op"] == "count" {
        let rows = scan.select_empty().build()?.to_arrow().await?;
        let count = rows.try_fold(0, async |sum, batch| Ok(sum + batch.num_rows()));
        return Ok(json!({"count": count.await?}));
    }
    if let Some(columns) = asked["columns"].as_array() {
        scan = scan.select(columns.iter().filter_map(Value::as_str));
    }
    let rows = scan.build()?.to_arrow().await?.try_collect::<Vec<_>>();
    write(&rows.await?, shown(asked, &schema)?, asked)?;
    Ok(json!({"rows": asked["output"]}))
}

/// The requested snapshot, or the current snapshot if the request has no number.
fn snapshot_id(asked: &Value, metadata: &TableMetadata) -> Result<Option<i64>, Refusal> {
    let at = &asked["table"]["at"];
    let value = &at["value"];
    let found = match at["kind"].as_str() {
        None => return Ok(None),
        Some("snapshot_id") => value.as_i64(),
        Some("ref") => metadata
            .snapshot_for_ref(value.as_str().unwrap())
            .map(|each| each.snapshot_id()),
        Some("timestamp_ms") => metadata
            .history()
            .iter()
            .rfind(|each| Some(each.timestamp_ms()) <= value.as_i64())
            .map(|each| each.snapshot_id),
        Some(kind) => {
            let why = format!("no Iceberg table is read by {kind}");
            return Err(Refusal::unsupported(why));
        }
    };
    let none = || Refusal::error("not-found", format!("the table has no snapshot {at}"));
    Ok(Some(found.ok_or_else(none)?))
}

/// The requested columns with the Arrow types of the crate.
fn shown(asked: &Value, schema: &Schema) -> Result<ArrowSchemaRef, Error> {
    let Some(columns) = asked["columns"].as_array() else {
        return Ok(Arc::new(schema_to_arrow_schema(schema)?));
    };
    let field = |name: &str| match schema.field_by_name(name) {
        Some(field) => Ok(field.clone()),
        None => get_metadata_field(get_metadata_field_id(name)?).cloned(),
    };
    let names = columns.iter().filter_map(Value::as_str);
    let fields = names.map(field).collect::<Result<Vec<_>, _>>()?;
    let projected = Schema::builder().with_fields(fields).build()?;
    Ok(Arc::new(schema_to_arrow_schema(&projected)?))
}

/// Writes the rows. Columns that are constant in a file are run-end encoded in its batches only.
fn write(rows: &[RecordBatch], schema: ArrowSchemaRef, asked: &Value) -> Result<(), Error> {
    let plain = |column: &ArrayRef| match column.data_type() {
        DataType::RunEndEncoded(_, values) => cast(column, values.data_type()),
        _ => Ok(column.clone()),
    };
    let file = File::create(asked["output"].as_str().unwrap())?;
    let mut writer = StreamWriter::try_new(file, &schema)?;
    for batch in rows {
        let columns = batch.columns().iter().map(plain);
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let counted = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(schema.clone(), columns, &counted)?;
        writer.write(&batch)?;
    }
    Ok(writer.finish()?)
}

fn filter(asked: &Value, schema: &Schema) -> Result<Option<Predicate>, Refusal> {
    match (&asked["where"], &asked["predicate"]) {
        (Value::Null, _) => Ok(None),
        (text, Value::Null) => Err(Refusal::unsupported(format!("no expression says {text}"))),
        (_, said) => Ok(Some(predicate(said, schema)?)),
    }
}

fn predicate(said: &Value, schema: &Schema) -> Result<Predicate, Refusal> {
    let part = |key: &str| predicate(&said[key], schema);
    let term = || Reference::new(said["term"].as_str().unwrap_or_default());
    let one = || literal(&said["value"], said, schema);
    let all = || {
        let values = said["values"].as_array().unwrap().iter();
        values
            .map(|each| literal(each, said, schema))
            .collect::<Result<Vec<_>, _>>()
    };
    Ok(match said["type"].as_str().unwrap() {
        "true" => Predicate::AlwaysTrue,
        "false" => Predicate::AlwaysFalse,
        "and" => part("left")?.and(part("right")?),
        "or" => part("left")?.or(part("right")?),
        "not" => !part("child")?,
        "is-null" => term().is_null(),
        "not-null" => term().is_not_null(),
        "is-nan" => term().is_nan(),
        "not-nan" => term().is_not_nan(),
        "eq" => term().equal_to(one()?),
        "not-eq" => term().not_equal_to(one()?),
        "lt" => term().less_than(one()?),
        "lt-eq" => term().less_than_or_equal_to(one()?),
        "gt" => term().greater_than(one()?),
        "gt-eq" => term().greater_than_or_equal_to(one()?),
        "starts-with" => term().starts_with(one()?),
        "not-starts-with" => term().not_starts_with(one()?),
        "in" => term().is_in(all()?),
        "not-in" => term().is_not_in(all()?),
        kind => return Err(Refusal::unsupported(format!("the crate has no {kind}"))),
    })
}

/// A literal with the type of the column that it is compared with.
fn literal(value: &Value, said: &Value, schema: &Schema) -> Result<Datum, Refusal> {
    let name = said["term"].as_str().unwrap_or_default();
    let Some(field) = schema.field_by_name(name) else {
        let why = format!("the snapshot's schema has no column {name}");
        return Err(Refusal::error("invalid-request", why));
    };
    let Some(kind) = field.field_type.as_primitive_type() else {
        return Err(Refusal::unsupported(format!("no literal is of {name}")));
    };
    let text = value.as_str().map_or(value.to_string(), str::to_string);
    let nanos = || string_to_timestamp_nanos(&text).ok();
    let made = match kind {
        PrimitiveType::Boolean => value.as_bool().map(Datum::bool),
        PrimitiveType::Int | PrimitiveType::Long => value.as_i64().map(Datum::long),
        PrimitiveType::Float => value.as_f64().map(|each| Datum::float(each as f32)),
        PrimitiveType::Double => value.as_f64().map(Datum::double),
        PrimitiveType::Decimal { scale, .. } => decimal(&text, kind, *scale),
        PrimitiveType::Date => Datum::date_from_str(&text).ok(),
        PrimitiveType::Time => Datum::time_from_str(&text).ok(),
        PrimitiveType::Timestamp => Datum::timestamp_from_str(&text).ok(),
        PrimitiveType::Timestamptz => Datum::timestamptz_from_str(&text).ok(),
        PrimitiveType::TimestampNs => nanos().map(Datum::timestamp_nanos),
        PrimitiveType::TimestamptzNs => nanos().map(Datum::timestamptz_nanos),
        PrimitiveType::String => value.as_str().map(Datum::string),
        PrimitiveType::Uuid => Datum::uuid_from_str(&text).ok(),
        PrimitiveType::Fixed(_) => bytes(&text).map(Datum::fixed),
        PrimitiveType::Binary => bytes(&text).map(Datum::binary),
    };
    made.ok_or_else(|| Refusal::unsupported(format!("{text} is no {kind}")))
}

/// A decimal with the column's scale, because the crate accepts no other scale.
fn decimal(text: &str, kind: &PrimitiveType, scale: u32) -> Option<Datum> {
    let (whole, digits) = text.split_once('.').unwrap_or((text, ""));
    let zeros = (scale as usize).checked_sub(digits.len())?;
    let unscaled = format!("{whole}{digits}{}", "0".repeat(zeros));
    let bytes = unscaled.parse::<i128>().ok()?.to_be_bytes();
    Datum::try_from_bytes(&bytes, kind.clone()).ok()
}

/// The bytes of a hex text.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let starts = (0..text.len()).step_by(2);
    let byte = |start| u8::from_str_radix(text.get(start..start + 2)?, 16).ok();
    starts.map(byte).collect()
}
