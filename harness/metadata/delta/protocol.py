"""Checks that harness can read a table, and the parts of its metadata that are in force (delta section 3, R12).

Harness supports everything that the table requires of readers, or refuses the table and names the unsupported features.
Features for writers alone never prevent a read.

A feature for readers and writers must be in both feature lists. If a writer left it out of one list, harness applies
the feature and warns. Ignoring such a feature could return nulls for every mapped column. This deviates from delta P1
and P4, which refuse a feature that only the readers' list has, and ignore a feature that only the writers' list has.

Spec: Delta, "Table Features", "Protocol Evolution", "Valid Feature Names in Table Features".
"""

from __future__ import annotations

import enum
import itertools
import json
from collections.abc import Iterator, Mapping

from harness.errors import HarnessError, InvalidTableError, RequestError, UnsupportedError, counted
from harness.metadata.delta.actions import Metadata, Protocol, State
from harness.metadata.delta.paths import TableRoot
from harness.metadata.plan.read_options import ReadOptions
from harness.storage.paths import PhysicalPath

# A redirected table has its data, or will soon have it, at another location (frontier F5.3). Delta on Spark sets the
# redirect properties without adding the features of the same names, so the properties decide.


_READER_WRITER = ("delta.redirectReaderWriter-preview", "delta.redirectReaderWriter")
_WRITER_ONLY = ("delta.redirectWriterOnly-preview", "delta.redirectWriterOnly")
_READY = "REDIRECT-READY"
_IN_PROGRESS = ("ENABLE-REDIRECT-IN-PROGRESS", "DROP-REDIRECT-IN-PROGRESS")
_NONE = "NO-REDIRECT"


def _check_redirect(configuration: Mapping[str, str], *, table: str | None = None) -> None:
    """Refuse a table whose rows are not at `table`, and redirections with an unknown state (frontier F5.3)."""
    for name in _READER_WRITER:
        text = configuration.get(name)
        if text is None:
            continue
        document = _document(text)
        state = document.get("state")
        if state == _READY and not _is_at(table, document):
            message = (
                f"Cannot read a redirected table: its data is at {_show_destination(document)}; read the table there"
            )
            raise UnsupportedError(message, cause="UnsupportedFeature", field=name, rule="frontier F5.3")
        if state not in (_READY, *_IN_PROGRESS, _NONE):
            message = (
                f"Invalid table property {name}: got {text!r}, expected a JSON object with the state {_READY}, "
                f"{' or '.join(_IN_PROGRESS)}"
            )
            raise InvalidTableError(message, cause="InvalidProperty", field=name, rule="frontier F5.3")


def redirect_warnings(configuration: Mapping[str, str], *, table: str) -> tuple[str, ...]:
    """Return warnings about a table that is being moved. `check_protocol` allows such tables to be read.

    If only writers are redirected, readers that do not follow the redirection may see an old version.
    """
    warnings = []
    for name in (*_READER_WRITER, *_WRITER_ONLY):
        document = _document(configuration.get(name, ""))
        state = document.get("state")
        if state in _IN_PROGRESS:
            warnings.append(
                f"The table is being redirected to {_show_destination(document)} or back ({state}); "
                "its own rows are read"
            )
        elif state == _READY and not _is_at(table, document):
            warnings.append(
                f"Writers of the table now write to {_show_destination(document)}, so this may be an older version"
            )
    return tuple(warnings)


def _document(text: str) -> Mapping[str, object]:
    """Return the JSON object in a text, or an empty one if the text holds none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _is_at(table: str | None, document: Mapping[str, object]) -> bool:
    """Return whether the redirection leads to the table at this location."""
    place = _destination(document)
    return table is not None and place is not None and _root(table) == _root(place)


def _root(location: str) -> str:
    return TableRoot.at(PhysicalPath(location)).path


def _show_destination(document: Mapping[str, object]) -> str:
    return _destination(document) or "a location that its property does not name"


def _destination(document: Mapping[str, object]) -> str | None:
    """Return the location of the data according to a redirection, or None if unknown.

    The value `spec` of the redirection is JSON text or an object.
    """
    spec = document.get("spec")
    inner = _document(spec) if isinstance(spec, str) else spec if isinstance(spec, dict) else {}
    place = inner.get("destPath")
    return place if isinstance(place, str) and place else None


COLUMN_MAPPING = "columnMapping"
DELETION_VECTORS = "deletionVectors"
CATALOG_MANAGED = "catalogManaged"
TYPE_WIDENING = "typeWidening"

_SUPPORTED: tuple[str, ...] = (
    COLUMN_MAPPING,
    DELETION_VECTORS,
    "timestampNtz",
    TYPE_WIDENING,
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "variantType",
    "variantShredding",
    CATALOG_MANAGED,  # requires the catalog's answer, see `check_catalog`
    "geospatial",  # geospatial columns are refused when they are read (delta T28)
)

_ALIASES: dict[str, str] = {
    "timestampWithoutTimezone": "timestampNtz",
    "typeWidening-preview": TYPE_WIDENING,
    "variantType-preview": "variantType",
    "variantShredding-preview": "variantShredding",
    "geospatial-dev": "geospatial",
    "catalogOwned-preview": CATALOG_MANAGED,
}
"""Older names of features that mean the same to a reader."""

_UNSUPPORTED: dict[str, str] = {
    "adaptiveMetadata-preview": "its files are listed in metadata of another kind",
    "redirectReaderWriter-preview": "its data is at another location",
    "timestampNanos": "its timestamps have nanoseconds",
    "intervalType": "it has interval columns",
}
"""Reader features that harness knows but does not support, with the reason."""

_CANONICAL = {name.lower(): name for name in (*_SUPPORTED, *_UNSUPPORTED)} | {
    alias.lower(): name for alias, name in _ALIASES.items()
}

_NEWEST_READER_VERSION = 3


class MappingMode(enum.Enum):
    """How columns are found in data files: by display name, physical name, or field id (delta T10)."""

    NONE = "none"
    NAME = "name"
    ID = "id"


def check_protocol(protocol: Protocol, metadata: Metadata, *, table: str | None = None) -> None:
    """Refuse a table whose protocol or metadata requires something of readers that harness does not support.

    Args:
        protocol: The protocol in force.
        metadata: The metadata in force.
        table: The location of the table, for errors and redirections.

    Raises:
        UnsupportedError: The reader version is above 3 (delta P1), a feature list has unsupported reader features (P2,
            P5; the message names all of them), the data files are not Parquet (R12), or the rows are at another
            location (frontier F5.3).
        InvalidTableError: Version 3 has no list of reader features, or another version has a list that is not empty
            (P1), or the column mapping mode does not exist (P4).
    """
    try:
        _check_version(protocol)
        _check_features(protocol)
        if metadata.provider.lower() != "parquet":
            message = (
                f"Cannot read data files in format {metadata.provider!r}; the data files of a Delta table are Parquet"
            )
            raise UnsupportedError(message, cause="UnsupportedFeature", rule="delta R12")
        _check_redirect(metadata.configuration, table=table)
        mapping_mode(metadata, protocol)
    except HarnessError as error:
        raise error.within(table=table) from None


def is_catalog_managed(protocol: Protocol) -> bool:
    """Return whether only the table's catalog knows which commits belong to the table (frontier F4)."""
    return CATALOG_MANAGED in features(protocol)


def check_catalog(protocol: Protocol, options: ReadOptions) -> None:
    """Check that the catalog's answer, if required, was given. Without it the latest version is unknown.

    Raises:
        UnsupportedError: A catalog manages the table, but its answer is missing (rules frontier F4.3, F4.4).
        RequestError: A catalog's answer was given for a table that no catalog manages.
    """
    if is_catalog_managed(protocol):
        if options.answer is None and not options.published_only:
            raise UnsupportedError(
                f"Cannot read a catalog-managed table (feature {CATALOG_MANAGED!r}) without its catalog, which alone "
                "knows the newest commits. Open the table by its name in the catalog, or pass the catalog's answer as "
                "max_version and ratified; published_only reads the published versions, which may be older",
                cause="CatalogManaged",
                rule="frontier F4.3",
                options=("max_version", "ratified", "published_only"),
            )
    elif options.answer is not None:
        message = (
            "Cannot use a catalog's answer: no catalog manages the table, so its log alone determines its commits; "
            "leave max_version and ratified out"
        )
        raise RequestError(message, cause="CatalogAnswer", rule="frontier F4.5", options=("max_version", "ratified"))


def features(protocol: Protocol) -> frozenset[str]:
    """Return the reader features of a table under their newest names. Reader version 2 means column mapping.

    A reader feature counts even if only the writers' list has it. Column mapping under reader version 1 is an exception
    and does not count: writer version 5 implies it, so a table that was upgraded from version 5 lists the feature even
    if it never used it. A listed feature may be used in the table, but need not be (delta P3).
    """
    supported = {_canonical(name) for name in protocol.writer_features or ()} & set(_SUPPORTED)
    match protocol.min_reader_version:
        case 1:
            return frozenset(supported - {COLUMN_MAPPING})
        case 2:
            return frozenset(supported | {COLUMN_MAPPING})
        case _:
            return frozenset(supported | {_canonical(name) for name in protocol.reader_features or ()})


def mapping_mode(metadata: Metadata, protocol: Protocol) -> MappingMode:
    """Return the column mapping mode in force.

    It is NONE if the protocol lacks the feature, whatever the properties are (delta P4).

    Raises:
        InvalidTableError: The property has an unknown mode, in force or not.
    """
    text = metadata.configuration.get("delta.columnMapping.mode", "none")
    try:
        mode = MappingMode(text.lower())
    except ValueError:
        message = f"Invalid table property delta.columnMapping.mode: got {text!r}, expected none, name or id"
        raise InvalidTableError(message, cause="UnsupportedFeature", rule="delta P4") from None
    return mode if COLUMN_MAPPING in features(protocol) else MappingMode.NONE


def is_enabled(configuration: Mapping[str, str], key: str) -> bool:
    """Return the value of the boolean table property `key`, or False if it is not set.

    Raises:
        InvalidTableError: The value is not a boolean (rule delta R12).
    """
    text = configuration.get(key)
    match None if text is None else text.lower():
        case None | "false":
            return False
        case "true":
            return True
        case _:
            message = f"Invalid table property {key}: got {text!r}, expected true or false"
            raise InvalidTableError(message, cause="InvalidProperty", rule="delta R12")


def protocol_warnings(protocol: Protocol) -> tuple[str, ...]:
    """Return warnings for readers that only see the log (delta P6)."""
    if "coordinatedcommits-preview" not in {name.lower() for name in protocol.writer_features or ()}:
        return ()
    return (
        "The table's commits are coordinated by a service: the newest of them may not be in its log yet, so this may "
        "be an older version of the table (delta P6)",
    )


_MISPLACED = (
    "The protocol has an empty list of readerFeatures with minReaderVersion {}, expected a list with version 3 only; "
    "the list is ignored (delta P1)"
)


def feature_warnings(protocol: Protocol, *, has_vectors: bool) -> tuple[str, ...]:
    """Return a sentence for each misplaced feature list and feature. The table can be read all the same.

    Args:
        protocol: The protocol in force.
        has_vectors: True if a live file has a deletion vector. Vectors are always applied (delta P3).
    """
    lists = {"readerFeatures": protocol.reader_features or (), "writerFeatures": protocol.writer_features or ()}
    names = {label: {_canonical(name) for name in feature_names} for label, feature_names in lists.items()}
    # older versions imply column mapping, or that it is unused
    if protocol.min_reader_version < _NEWEST_READER_VERSION:
        names["readerFeatures"].add(COLUMN_MAPPING)
        names["writerFeatures"].add(COLUMN_MAPPING)
    misplaced = protocol.reader_features is not None and protocol.min_reader_version < _NEWEST_READER_VERSION
    warnings = [_MISPLACED.format(protocol.min_reader_version)] if misplaced else []
    warnings += [
        f"The protocol has feature {name!r} among {has} only, expected it among {lacks} too; the table is read with it "
        "(delta P1)"
        for has, lacks in itertools.permutations(lists)
        for name in lists[has]
        if _canonical(name) in _SUPPORTED and _canonical(name) not in names[lacks]
    ]
    if has_vectors and DELETION_VECTORS not in features(protocol):
        warnings.append(
            f"Data files have deletion vectors, and the protocol has feature {DELETION_VECTORS!r} neither among "
            "readerFeatures nor among writerFeatures; the vectors are applied (delta P3)"
        )
    return tuple(warnings)


def reader_features_in_use(state: State) -> Iterator[tuple[str, str]]:
    """Yield the reader features that a table uses, with the evidence, even if the protocol does not list them."""
    vectors = state.files.column("dv_storage_type")
    if vectors.null_count < len(vectors):
        yield DELETION_VECTORS, f"{counted(len(vectors) - vectors.null_count, 'file')} with deletion vectors"
    if (mode := state.metadata.configuration.get("delta.columnMapping.mode", "none")) != "none":
        yield COLUMN_MAPPING, f"delta.columnMapping.mode is {mode}"
    text = state.metadata.schema_string
    for feature, spelled in (
        ("timestampNtz", '"timestamp_ntz"'),
        (TYPE_WIDENING, '"delta.typeChanges"'),
        ("variantType", '"variant"'),
    ):
        if spelled in text.replace(" ", ""):
            yield feature, f"the schema has {spelled}"


LEGACY_WRITERS = {"appendOnly": 2, "invariants": 2, "checkConstraints": 3, "changeDataFeed": 4, "generatedColumns": 4}
LEGACY_WRITERS |= {"identityColumns": 6}
"""The writer version that implies each feature without a list. All other features must be listed."""

_BY_PROPERTY = {
    "delta.appendOnly": "appendOnly",
    "delta.enableChangeDataFeed": "changeDataFeed",
    "delta.enableRowTracking": "rowTracking",
    "delta.enableInCommitTimestamps": "inCommitTimestamp",
    "delta.enableIcebergCompatV1": "icebergCompatV1",
    "delta.enableIcebergCompatV2": "icebergCompatV2",
}
_BY_ANNOTATION = {
    '"delta.generationExpression"': "generatedColumns",
    '"delta.identity.start"': "identityColumns",
    '"delta.invariants"': "invariants",
    '"CURRENT_DEFAULT"': "allowColumnDefaults",
}


def writer_features_in_use(state: State) -> Iterator[tuple[str, str]]:
    """Yield the writer-only features that a table uses, with the evidence, even if the protocol does not list them."""
    for key, value in state.metadata.configuration.items():
        if key in _BY_PROPERTY and value.lower() == "true":
            yield _BY_PROPERTY[key], f"{key} is {value}"
        if key.startswith("delta.constraints."):
            yield "checkConstraints", f"there is {key}"
    for spelled, feature in _BY_ANNOTATION.items():
        if spelled in state.metadata.schema_string:
            yield feature, f"the schema has {spelled}"
    for domain in state.domains:
        yield "domainMetadata", f"there is the domain {domain}"
        if domain == "delta.clustering":
            yield "clustering", f"there is the domain {domain}"


def _check_version(protocol: Protocol) -> None:
    version = protocol.min_reader_version
    if version > _NEWEST_READER_VERSION:
        names = ", ".join(map(repr, protocol.reader_features or ()))
        features = f" and has the reader features {names}" if names else ""
        message = (
            f"Cannot read a table that needs reader version {version}{features}; harness reads versions 1 to "
            f"{_NEWEST_READER_VERSION}"
        )
        raise UnsupportedError(message, cause="UnsupportedProtocol", rule="delta P1")
    if version < 1:
        raise _malformed(f"got minReaderVersion {version}, expected 1, 2 or 3")
    if version == _NEWEST_READER_VERSION and protocol.reader_features is None:
        raise _malformed(f"got no list of readerFeatures, expected the list with version {_NEWEST_READER_VERSION}")
    if version < _NEWEST_READER_VERSION and protocol.reader_features:  # an empty list only causes a warning
        feature_names = ", ".join(map(repr, protocol.reader_features))
        raise _malformed(
            f"got readerFeatures {feature_names} with minReaderVersion {version}, expected a list with version "
            f"{_NEWEST_READER_VERSION} only"
        )


def _check_features(protocol: Protocol) -> None:
    unread = [name for name in protocol.reader_features or () if _canonical(name) not in _SUPPORTED]
    unread += [
        name for name in protocol.writer_features or () if _canonical(name) in _UNSUPPORTED and name not in unread
    ]
    if unread:
        reasons = [f"{name!r} ({_UNSUPPORTED.get(_canonical(name), 'unknown')})" for name in unread]
        message = f"Cannot read a table with the reader features {', '.join(reasons)}; use a reader that supports them"
        raise UnsupportedError(message, cause="UnsupportedFeature", rule="delta P2")


def _malformed(reason: str) -> InvalidTableError:
    return InvalidTableError(f"Invalid protocol: {reason}", cause="LogCorrupt", rule="delta P1")


def _canonical(name: str) -> str:
    return _CANONICAL.get(name.lower(), name)
