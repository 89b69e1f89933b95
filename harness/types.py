"""Types of the arguments and results of public functions, for annotations and `isinstance`.

    from harness.types import DecimalType

    prices = [field.name for field in orders.schema.fields if isinstance(field.type, DecimalType)]

The module contains plans, schemas, filters, findings of a check, and differences of a comparison. The functions that
create them are in `harness`.
"""

from harness.check.rules import Breach, CheckRule, Finding, Level, Place, Reads, Severity
from harness.check.running import CheckReport
from harness.diff.result import (
    ColumnDifference,
    ComparisonOutcome,
    GroupDifference,
    Origin,
    PartDifference,
    ReportProvenance,
    RowDifference,
    RowKind,
    SchemaDifference,
    SchemaKind,
    SideInfo,
    Spread,
)
from harness.engines.registry import Batches
from harness.metadata.catalogs.catalog import Endpoint
from harness.metadata.filters.predicate import (
    And,
    Comparison,
    Constant,
    Filter,
    In,
    IsNan,
    IsNull,
    Op,
    Or,
    StartsWith,
    Undecided,
)
from harness.metadata.model.file_schema import MappedName, NameMapping
from harness.metadata.model.schema import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    Field,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    Int96Type,
    IntegerType,
    ListType,
    MapType,
    OpaqueType,
    Schema,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    UnknownType,
    UnsignedType,
    UuidType,
    VariantType,
)
from harness.metadata.model.text_tables import Listing
from harness.metadata.plan.deletes import (
    ChangedRows,
    DatedDelete,
    DatedPositions,
    EqualityDelete,
    InlineVector,
    PositionDeleteFile,
    PositionDeletes,
    PositionFiles,
    StoredVector,
)
from harness.metadata.plan.lifetimes import ChangeMode, Lifetimes, RangeCommit, Span
from harness.metadata.plan.projection import ColumnLookup
from harness.metadata.plan.read_options import TableOptions
from harness.metadata.plan.scan_plan import Counts, DeltaRules, IcebergRules, Partition, SkippedFiles
from harness.metadata.tables.history import History
from harness.metadata.tables.reading import MetadataTable
from harness.snapshot import BatchArguments, PlannedRows, ReadArguments
from harness.storage.paths import PathMap
from harness.table import OpenOptions

__all__ = [
    "And",
    "BatchArguments",
    "Batches",
    "BinaryType",
    "BooleanType",
    "Breach",
    "ChangeMode",
    "ChangedRows",
    "CheckReport",
    "CheckRule",
    "ColumnDifference",
    "ColumnLookup",
    "Comparison",
    "ComparisonOutcome",
    "Constant",
    "Counts",
    "DateType",
    "DatedDelete",
    "DatedPositions",
    "DecimalType",
    "DeltaRules",
    "Endpoint",
    "EqualityDelete",
    "Field",
    "Filter",
    "Finding",
    "FixedType",
    "FloatType",
    "GeographyType",
    "GeometryType",
    "GroupDifference",
    "History",
    "IcebergRules",
    "In",
    "InlineVector",
    "Int96Type",
    "IntegerType",
    "IsNan",
    "IsNull",
    "Level",
    "Lifetimes",
    "ListType",
    "Listing",
    "MapType",
    "MappedName",
    "MetadataTable",
    "NameMapping",
    "Op",
    "OpaqueType",
    "OpenOptions",
    "Or",
    "Origin",
    "PartDifference",
    "Partition",
    "PathMap",
    "Place",
    "PlannedRows",
    "PositionDeleteFile",
    "PositionDeletes",
    "PositionFiles",
    "RangeCommit",
    "ReadArguments",
    "Reads",
    "ReportProvenance",
    "RowDifference",
    "RowKind",
    "Schema",
    "SchemaDifference",
    "SchemaKind",
    "Severity",
    "SideInfo",
    "SkippedFiles",
    "Span",
    "Spread",
    "StartsWith",
    "StoredVector",
    "StringType",
    "StructType",
    "TableOptions",
    "TimeType",
    "TimestampType",
    "Undecided",
    "UnknownType",
    "UnsignedType",
    "UuidType",
    "VariantType",
]
