"""Checks that harness may read a table, and the parts of its metadata that are in force (delta section 3, R12).

Harness does all that a table's readers must know, or refuses the table by the names of the rest. Features for writers
alone never stop a read.

A feature of readers and writers belongs into both lists. Where a writer left it out of one, the table is read with it,
and its reader is told: to go by the other list alone would give nulls for every mapped column. This overrules delta P1
and P4, which refuse a feature that only the list of readers has and ignore one that only the list of writers has.

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

# Redirected tables: their data is, or is about to be, at another place (frontier F5.3).
#
# Delta on Spark sets the properties without the features of the same names, so the properties count.


_READER_WRITER = ("delta.redirectReaderWriter-preview", "delta.redirectReaderWriter")
_WRITER_ONLY = ("delta.redirectWriterOnly-preview", "delta.redirectWriterOnly")
_READY = "REDIRECT-READY"
_IN_PROGRESS = ("ENABLE-REDIRECT-IN-PROGRESS", "DROP-REDIRECT-IN-PROGRESS")
_NONE = "NO-REDIRECT"


def _check_redirect(configuration: Mapping[str, str], *, table: str | None = None) -> None:
    """Refuses a table whose rows are elsewhere than at `table`, and unknown redirections (frontier F5.3)."""
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
    """Warnings about a table that is moving, one sentence each; `check_protocol` lets it be read.

    A redirection of writers alone leaves the table to readers that do not follow it, which may then see an old version.
    """
    found = []
    for name in (*_READER_WRITER, *_WRITER_ONLY):
        document = _document(configuration.get(name, ""))
        state = document.get("state")
        if state in _IN_PROGRESS:
            found.append(
                f"The table is being redirected to {_show_destination(document)} or back ({state}); its own rows are read"
            )
        elif state == _READY and not _is_at(table, document):
            found.append(
                f"Writers of the table write to {_show_destination(document)}: this may be an older version of it"
            )
    return tuple(found)


def _document(text: str) -> Mapping[str, object]:
    """The object in a text; empty where there is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _is_at(table: str | None, document: Mapping[str, object]) -> bool:
    """True if the redirection leads to the table at this location."""
    place = _destination(document)
    return table is not None and place is not None and _root(table) == _root(place)


def _root(location: str) -> str:
    return TableRoot.at(PhysicalPath(location)).path


def _show_destination(document: Mapping[str, object]) -> str:
    return _destination(document) or "a place that its property does not name"


def _destination(document: Mapping[str, object]) -> str | None:
    """The place of the data, as far as the property says; `spec` is a text with JSON, or an object."""
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
    CATALOG_MANAGED,  # with its catalog's answer, see `check_catalog`
    "geospatial",  # its columns are refused one by one, when they are read (delta T28)
)

_ALIASES: dict[str, str] = {
    "timestampWithoutTimezone": "timestampNtz",
    "typeWidening-preview": TYPE_WIDENING,
    "variantType-preview": "variantType",
    "variantShredding-preview": "variantShredding",
    "geospatial-dev": "geospatial",
    "catalogOwned-preview": CATALOG_MANAGED,
}
"""Older names of features, which mean the same to a reader."""

_UNSUPPORTED: dict[str, str] = {
    "adaptiveMetadata-preview": "its files are listed in metadata of another kind",
    "redirectReaderWriter-preview": "its data is at another place",
    "timestampNanos": "its timestamps have nanoseconds",
    "intervalType": "it has interval columns",
}
"""Reader features that are known and not read, with the reason."""

_CANONICAL = {name.lower(): name for name in (*_SUPPORTED, *_UNSUPPORTED)} | {
    alias.lower(): name for alias, name in _ALIASES.items()
}

_NEWEST_READER_VERSION = 3


class MappingMode(enum.Enum):
    """The way in which columns of a data file are found: display name, physical name, or field id (delta T10)."""

    NONE = "none"
    NAME = "name"
    ID = "id"


def check_protocol(protocol: Protocol, metadata: Metadata, *, table: str | None = None) -> None:
    """Returns if harness can read a table with this protocol and metadata, whatever its writers must know.

    Raises:
        UnsupportedError: the reader version is above 3 (delta P1), reader features that harness does not have, all of
            them named (P2, P5), in whatever list they are, data files that are not Parquet (R12), or rows at another
            place (frontier F5.3).
        InvalidTableError: there is no list of reader features with version 3, or one that names features with another
            version (P1), or the mode of column mapping is none that exists (P4).
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
    """True if the table's catalog alone knows which commits are of the table (frontier F4)."""
    return CATALOG_MANAGED in features(protocol)


def check_catalog(protocol: Protocol, options: ReadOptions) -> None:
    """Returns if the catalog's answer is enough to read the latest version (frontier F4.3, F4.4).

    Raises:
        UnsupportedError: a catalog manages the table, and nobody asked it.
        RequestError: there is a catalog's answer about a table that no catalog manages.
    """
    if is_catalog_managed(protocol):
        if options.answer is None and not options.published_only:
            raise UnsupportedError(
                f"Cannot read a table that its catalog manages (feature {CATALOG_MANAGED!r}) without the catalog, "
                "which alone knows its newest commits: open it by its name in the catalog, or give the catalog's "
                "answer, max_version and ratified; published_only reads what is published, which may be older",
                cause="CatalogManaged",
                rule="frontier F4.3",
                options=("max_version", "ratified", "published_only"),
            )
    elif options.answer is not None:
        message = (
            "Cannot read by a catalog's answer: no catalog manages the table, so its log alone says its commits; leave "
            "max_version and ratified out"
        )
        raise RequestError(message, cause="CatalogAnswer", rule="frontier F4.5", options=("max_version", "ratified"))


def features(protocol: Protocol) -> frozenset[str]:
    """The reader features of a table, in the newest spelling of their names; reader version 2 means column mapping.

    A feature that readers must know counts too if it is among the writers' only. Not so column mapping under reader
    version 1: writer version 5 means it as well, so a table that was upgraded from there names it and never used it.
    A feature says what may occur in the table, not that it does (delta P3).
    """
    known = {_canonical(name) for name in protocol.writer_features or ()} & set(_SUPPORTED)
    match protocol.min_reader_version:
        case 1:
            return frozenset(known - {COLUMN_MAPPING})
        case 2:
            return frozenset(known | {COLUMN_MAPPING})
        case _:
            return frozenset(known | {_canonical(name) for name in protocol.reader_features or ()})


def mapping_mode(metadata: Metadata, protocol: Protocol) -> MappingMode:
    """The mode of column mapping in force: NONE unless the protocol has column mapping, whatever properties say (P4).

    Raises InvalidTableError: the property has a mode that does not exist, in force or not.
    """
    text = metadata.configuration.get("delta.columnMapping.mode", "none")
    try:
        mode = MappingMode(text.lower())
    except ValueError:
        message = f"Invalid table property delta.columnMapping.mode: got {text!r}, expected none, name or id"
        raise InvalidTableError(message, cause="UnsupportedFeature", rule="delta P4") from None
    return mode if COLUMN_MAPPING in features(protocol) else MappingMode.NONE


def is_enabled(configuration: Mapping[str, str], key: str) -> bool:
    """The boolean table property `key`; false where it is not set. Raises InvalidTableError (delta R12)."""
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
    """Warnings for a reader of the log alone, one sentence each (delta P6)."""
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
    """Return a sentence for each feature list and feature that is out of place; the table is read all the same.

    has_vectors: whether a live file has a deletion vector, which is applied in any case (delta P3).
    """
    lists = {"readerFeatures": protocol.reader_features or (), "writerFeatures": protocol.writer_features or ()}
    names = {label: {_canonical(name) for name in listed} for label, listed in lists.items()}
    if protocol.min_reader_version < _NEWEST_READER_VERSION:  # which means column mapping, or that it is not used
        names["readerFeatures"].add(COLUMN_MAPPING)
        names["writerFeatures"].add(COLUMN_MAPPING)
    misplaced = protocol.reader_features is not None and protocol.min_reader_version < _NEWEST_READER_VERSION
    found = [_MISPLACED.format(protocol.min_reader_version)] if misplaced else []
    found += [
        f"The protocol has feature {name!r} among {has} only, expected it among {lacks} too; the table is read with it "
        "(delta P1)"
        for has, lacks in itertools.permutations(lists)
        for name in lists[has]
        if _canonical(name) in _SUPPORTED and _canonical(name) not in names[lacks]
    ]
    if has_vectors and DELETION_VECTORS not in features(protocol):
        found.append(
            f"Data files have deletion vectors, and the protocol has feature {DELETION_VECTORS!r} neither among "
            "readerFeatures nor among writerFeatures; the vectors are applied (delta P3)"
        )
    return tuple(found)


def reader_features_in_use(state: State) -> Iterator[tuple[str, str]]:
    """The features of readers and writers that a table uses, in the protocol or not, each with the place."""
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
"""The writer version from which on a feature is meant without a list; the others are always listed."""

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
    """The features of writers alone that a table uses, in the protocol or not, each with the place."""
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
        listed_names = ", ".join(map(repr, protocol.reader_features or ()))
        named = f" and has the reader features {listed_names}" if listed_names else ""
        message = (
            f"Cannot read a table that needs reader version {version}{named}; harness reads versions 1 to "
            f"{_NEWEST_READER_VERSION}"
        )
        raise UnsupportedError(message, cause="UnsupportedProtocol", rule="delta P1")
    if version < 1:
        raise _malformed(f"got minReaderVersion {version}, expected 1, 2 or 3")
    if version == _NEWEST_READER_VERSION and protocol.reader_features is None:
        raise _malformed(f"got no list of readerFeatures, expected the list with version {_NEWEST_READER_VERSION}")
    if version < _NEWEST_READER_VERSION and protocol.reader_features:  # an empty list says nothing
        listed = ", ".join(map(repr, protocol.reader_features))
        raise _malformed(
            f"got readerFeatures {listed} with minReaderVersion {version}, expected a list with version "
            f"{_NEWEST_READER_VERSION} only"
        )


def _check_features(protocol: Protocol) -> None:
    unread = [name for name in protocol.reader_features or () if _canonical(name) not in _SUPPORTED]
    unread += [
        name for name in protocol.writer_features or () if _canonical(name) in _UNSUPPORTED and name not in unread
    ]
    if unread:
        reasons = [f"{name!r} ({_UNSUPPORTED.get(_canonical(name), 'unknown')})" for name in unread]
        message = f"Cannot read a table with the reader features {', '.join(reasons)}; use a reader that has them"
        raise UnsupportedError(message, cause="UnsupportedFeature", rule="delta P2")


def _malformed(reason: str) -> InvalidTableError:
    return InvalidTableError(f"Invalid protocol: {reason}", cause="LogCorrupt", rule="delta P1")


def _canonical(name: str) -> str:
    return _CANONICAL.get(name.lower(), name)
