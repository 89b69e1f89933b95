//! A complete reader under test for Delta tables with the crates `delta_kernel` and `delta_kernel_default_engine`.
//!
//! The kernel uses a filter to skip files and row groups only. The engine's evaluator then filters the rows.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::Arc;

use delta_kernel::arrow::array::{AsArray, RecordBatch};
use delta_kernel::arrow::compute::filter_record_batch;
use delta_kernel::arrow::ipc::writer::StreamWriter;
use delta_kernel::engine::arrow_conversion::TryIntoArrow;
use delta_kernel::engine::arrow_data::{ArrowEngineData, EngineDataArrowExt};
use delta_kernel::expressions::{ColumnName, Expression, Predicate};
use delta_kernel::history_manager::{HistoryCommitType, latest_version_as_of};
use delta_kernel::schema::{
    DataType, MetadataColumnSpec, PrimitiveType, SchemaRef, StructField, StructType,
};
use delta_kernel::table_changes::TableChanges;
use delta_kernel::{
    Engine, EngineData, KernelError, KernelResult, Snapshot, SnapshotRef, try_parse_uri,
};
use delta_kernel_default_engine::DefaultEngineBuilder;
use delta_kernel_default_engine::storage::store_from_url;
use serde_json::{Value, json};

mod protocol;
use protocol::{Refusal, serve};

impl From<KernelError> for Refusal {
    fn from(error: KernelError) -> Self {
        match &error {
            KernelError::Unsupported(why) => Self::unsupported(why),
            KernelError::ChangeDataFeedUnsupported(_) => Self::unsupported(&error),
            _ => Self::error("KernelError", &error),
        }
    }
}

/// Columns of row tracking, as metadata columns of the kernel.
const LINEAGE: [(&str, MetadataColumnSpec); 2] = [
    ("_row_id", MetadataColumnSpec::RowId),
    ("_row_commit_version", MetadataColumnSpec::RowCommitVersion),
];

fn main() {
    let hello = json!({
        "version": "0.30.1", "language": "Rust", "homepage": "https://github.com/delta-io/delta-kernel-rs",
        "ops": ["read", "count", "changes"],
    });
    serve(&hello, answer);
}

fn answer(asked: &Value) -> Result<Value, Refusal> {
    if asked["table"]["format"] != "delta" {
        return Err(Refusal::unsupported("only Delta tables"));
    }
    let url = try_parse_uri(asked["table"]["location"].as_str().unwrap())?;
    let engine: Arc<dyn Engine> =
        Arc::new(DefaultEngineBuilder::new(store_from_url(&url)?).build());
    if asked["op"] == "changes" {
        if !asked["where"].is_null() {
            return Err(Refusal::unsupported("filtered reads of changes"));
        }
        let (first, last) = (asked["from"].as_u64().unwrap(), asked["to"].as_u64());
        let changes = Arc::new(TableChanges::try_new(url, engine.as_ref(), first, last)?);
        let schema = projected(changes.schema(), asked, &[])?;
        let scan = changes.scan_builder().with_schema(schema.clone()).build()?;
        return written(&batches(scan.execute(engine)?)?, &schema, asked);
    }
    let snapshot = snapshot(asked, url.as_str(), engine.as_ref())?;
    let filter = filter(asked, &snapshot.schema())?;
    let used: BTreeSet<String> = filter
        .iter()
        .flat_map(|each| each.references())
        .map(|each| each[0].clone())
        .collect();
    let schema = projected(
        &snapshot.schema(),
        asked,
        &used.into_iter().collect::<Vec<_>>(),
    )?;
    let scan = snapshot
        .scan_builder()
        .with_schema(schema.clone())
        .with_predicate(filter.clone())
        .build()?;
    let mut rows = batches(scan.execute(engine.clone())?)?;
    if let Some(filter) = filter {
        let evaluator = engine
            .evaluation_handler()
            .new_predicate_evaluator(schema.clone(), filter)?;
        for batch in &mut rows {
            let kept = evaluator
                .evaluate(&ArrowEngineData::new(batch.clone()))?
                .try_into_record_batch()?;
            *batch = filter_record_batch(batch, kept.column(0).as_boolean())
                .map_err(KernelError::from)?;
        }
    }
    if asked["op"] == "count" {
        return Ok(json!({"count": rows.iter().map(RecordBatch::num_rows).sum::<usize>()}));
    }
    written(&rows, &schema, asked)
}

/// The table at the requested version.
fn snapshot(asked: &Value, url: &str, engine: &dyn Engine) -> Result<SnapshotRef, Refusal> {
    let at = &asked["table"]["at"];
    let build = |version: Option<u64>| {
        let builder = Snapshot::builder_for(url);
        version
            .into_iter()
            .fold(builder, |builder, version| builder.at_version(version))
            .build(engine)
    };
    Ok(match at["kind"].as_str() {
        None => build(None)?,
        Some("version") => build(at["value"].as_u64())?,
        Some("timestamp_ms") => {
            let moment = at["value"].as_i64().unwrap();
            let found = latest_version_as_of(
                build(None)?.as_ref(),
                engine,
                moment,
                HistoryCommitType::Recreatable,
            )?;
            build(Some(found.version))?
        }
        Some(kind) => {
            return Err(Refusal::unsupported(format!(
                "no Delta table is read by {kind}"
            )));
        }
    })
}

/// The schema of the requested columns, followed by the columns that the filter needs.
fn projected(schema: &StructType, asked: &Value, used: &[String]) -> KernelResult<SchemaRef> {
    let Some(columns) = asked["columns"].as_array() else {
        return Ok(Arc::new(schema.clone()));
    };
    let mut names: Vec<&str> = columns.iter().filter_map(Value::as_str).collect();
    let further: Vec<&str> = used
        .iter()
        .map(String::as_str)
        .filter(|name| !names.contains(name))
        .collect();
    names.extend(further);
    let field = |name: &str| match LINEAGE
        .iter()
        .find(|(known, _)| *known == name && schema.field(name).is_none())
    {
        Some((_, column)) => Ok(StructField::create_metadata_column(name, *column)),
        None => Ok(schema
            .project_as_struct(&[name])?
            .fields()
            .next()
            .unwrap()
            .clone()),
    };
    let fields = names
        .into_iter()
        .map(field)
        .collect::<KernelResult<Vec<_>>>()?;
    Ok(Arc::new(StructType::try_new(fields)?))
}

fn batches(
    rows: impl Iterator<Item = KernelResult<Box<dyn EngineData>>>,
) -> KernelResult<Vec<RecordBatch>> {
    rows.map(|batch| batch?.try_into_record_batch()).collect()
}

/// Writes the requested columns, which come first, to the output.
fn written(rows: &[RecordBatch], schema: &SchemaRef, asked: &Value) -> Result<Value, Refusal> {
    let write = || -> KernelResult<()> {
        let arrow: delta_kernel::arrow::datatypes::Schema = schema.as_ref().try_into_arrow()?;
        let shown: Vec<usize> = (0..asked["columns"]
            .as_array()
            .map_or(arrow.fields().len(), Vec::len))
            .collect();
        let arrow = rows
            .first()
            .map_or(Arc::new(arrow), RecordBatch::schema)
            .project(&shown)?;
        let mut writer =
            StreamWriter::try_new(File::create(asked["output"].as_str().unwrap())?, &arrow)?;
        for batch in rows {
            writer.write(&batch.project(&shown)?)?;
        }
        Ok(writer.finish()?)
    };
    write()?;
    Ok(json!({"rows": asked["output"]}))
}

/// The filter as a predicate of the kernel.
fn filter(asked: &Value, schema: &StructType) -> Result<Option<Arc<Predicate>>, Refusal> {
    match (&asked["where"], &asked["predicate"]) {
        (Value::Null, _) => Ok(None),
        (text, Value::Null) => Err(Refusal::unsupported(format!("no expression says {text}"))),
        (_, said) => Ok(Some(Arc::new(predicate(said, schema)?))),
    }
}

fn predicate(said: &Value, schema: &StructType) -> Result<Predicate, Refusal> {
    let part = |key: &str| predicate(&said[key], schema);
    let term = said["term"].as_str().unwrap_or_default();
    let whole = schema.field(term).is_some(); // a name may have dots
    let name = if whole {
        ColumnName::new([term])
    } else {
        ColumnName::new(term.split('.'))
    };
    let column = || Expression::from(name.clone());
    let kind = said["type"].as_str().unwrap();
    let compared = |value: &Value| -> Result<Predicate, Refusal> {
        let value = literal(value, &name, schema)?;
        Ok(match kind {
            "eq" | "in" => Predicate::eq(column(), value),
            "not-eq" => Predicate::ne(column(), value),
            "lt" => Predicate::lt(column(), value),
            "lt-eq" => Predicate::le(column(), value),
            "gt" => Predicate::gt(column(), value),
            "gt-eq" => Predicate::ge(column(), value),
            _ => return Err(Refusal::unsupported(format!("the kernel has no {kind}"))),
        })
    };
    Ok(match kind {
        "and" => Predicate::and(part("left")?, part("right")?),
        "or" => Predicate::or(part("left")?, part("right")?),
        "not" => Predicate::not(part("child")?),
        "is-null" => Predicate::is_null(column()),
        "in" => Predicate::or_from(
            said["values"]
                .as_array()
                .unwrap()
                .iter()
                .map(compared)
                .collect::<Result<Vec<_>, _>>()?,
        ),
        _ => compared(&said["value"])?,
    })
}

/// A literal with the type of the column that it is compared with.
fn literal(value: &Value, name: &ColumnName, schema: &StructType) -> Result<Expression, Refusal> {
    match schema.field_at(name)?.data_type() {
        DataType::Primitive(kind) => {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_string);
            if *kind == PrimitiveType::String {
                return Ok(Expression::literal(text)); // of the empty text, `parse_scalar` makes null
            }
            let found = kind.parse_scalar(&text);
            Ok(Expression::literal(found.map_err(|_| {
                Refusal::unsupported(format!("{text} is no {kind}"))
            })?))
        }
        other => Err(Refusal::unsupported(format!(
            "no literal is of the type {other}"
        ))),
    }
}
