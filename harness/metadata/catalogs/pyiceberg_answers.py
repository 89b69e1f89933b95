"""The answers of each kind of PyIceberg catalog about a table, before any file of the table is read.

The REST catalog returns metadata and credentials. Glue and Hive return records, also for Delta tables. All other
catalogs return the location of the metadata file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from harness.errors import IsAViewError, StorageError, UnsupportedError
from harness.metadata.catalogs.catalog import Name, name_text, read_pages

_WRITE_PATHS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
_DELTA, _ICEBERG = "delta", "iceberg"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The location of a table: its directory or, for Iceberg, its metadata file.

    Attributes:
        format: `iceberg` or `delta`.
        location: The table's directory, if the catalog names it.
        metadata_location: The metadata file, if the catalog names it.
        properties: The properties in this answer, which override the catalog's properties.
        places: Other locations of the table's files, which the user has to allow.
        vended: Properties by path prefix, which override both.
    """

    format: str
    location: str | None = None
    metadata_location: str | None = None
    properties: Mapping[str, Any] = field(default_factory=dict, repr=False)
    places: tuple[str, ...] = ()
    vended: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)


def load_answer(catalog: Any, name: Name) -> Answer:
    """Request a table's location from a PyIceberg catalog.

    Raises:
        IsAViewError: The name belongs to a view.
        UnsupportedError: The table has another format, or the catalog does not name its location.
        Exception: An error of the client, for example PyIceberg's NoSuchTableError.
    """
    kinds = {kind.__name__ for kind in type(catalog).__mro__}
    if "RestCatalog" in kinds:
        return _rest_answer(catalog, name)
    if kinds & {"GlueCatalog", "HiveCatalog"}:
        return _record_answer(catalog, name, is_glue="GlueCatalog" in kinds)
    try:
        return answer_of_table(catalog.load_table(name))
    except MetadataFileFound as interrupt:  # these catalogs only know the location of the metadata file
        return Answer(format=_ICEBERG, metadata_location=interrupt.location)


def _rest_answer(catalog: Any, name: Name) -> Answer:
    """Return the raw answer of `loadTable`. PyIceberg would refuse metadata that it does not support."""
    from pyiceberg.exceptions import NoSuchTableError

    try:
        # Old snapshots are in the metadata file, which is usually read in any case.
        document = _load_table(catalog, name, "refs")
    except NoSuchTableError:
        _refuse_view(catalog, name)
        raise
    location = document.get("metadata-location")
    if not isinstance(location, str):
        raise UnsupportedError(
            "Cannot read a table whose catalog does not name its metadata file", table=name_text(name)
        )
    metadata = _object(document, "metadata")
    recorded = _object(metadata, "properties")
    credentials = document.get("storage-credentials") or []
    vended = {each["prefix"]: _object(each, "config") for each in credentials if isinstance(each.get("prefix"), str)}
    return Answer(
        format=_ICEBERG,
        metadata_location=location,
        properties=_object(document, "config"),
        places=_places(metadata.get("location"), recorded, *vended),
        vended=vended,
    )


def load_metadata(catalog: Any, name: Name) -> Mapping[str, Any]:
    """Return the metadata of a table, with all of its snapshots, from the answer of a REST catalog.

    Raises:
        Exception: An error of the client.
    """
    return _object(_load_table(catalog, name, "all"), "metadata")


def _load_table(catalog: Any, name: Name, snapshots: str) -> dict[str, Any]:
    from pyiceberg.catalog.rest import Endpoints
    from pyiceberg.exceptions import NoSuchTableError

    url = catalog.url(Endpoints.load_table, **catalog._split_identifier_for_path(name))
    return _get(catalog, url, {"snapshots": snapshots}, NoSuchTableError)


def list_namespaces(catalog: Any, parent: Name) -> set[Name]:
    """Return the namespaces directly in a namespace of a PyIceberg catalog.

    Raises:
        Exception: An error of the client.
    """
    if "RestCatalog" not in {kind.__name__ for kind in type(catalog).__mro__}:
        return {tuple(each) for each in catalog.list_namespaces(parent)}
    from pyiceberg.catalog.rest import Endpoints

    inside = {"parent": catalog._encode_namespace_path(parent)} if parent else {}
    names = _rest_pages(catalog, catalog.url(Endpoints.list_namespaces), inside, "namespaces")
    return {_name(each) for each in names}


def list_tables(catalog: Any, namespace: Name) -> set[Name]:
    """Return the tables directly in a namespace of a PyIceberg catalog.

    Raises:
        Exception: An error of the client.
    """
    if "RestCatalog" not in {kind.__name__ for kind in type(catalog).__mro__}:
        return {tuple(each) for each in catalog.list_tables(namespace)}
    from pyiceberg.catalog.rest import Endpoints

    url = catalog.url(Endpoints.list_tables, namespace=catalog._encode_namespace_path(namespace))
    identifiers = _rest_pages(catalog, url, {}, "identifiers")
    return {_name([*each["namespace"], each["name"]]) for each in identifiers}


def _rest_pages(catalog: Any, url: str, params: Mapping[str, str], key: str) -> list[Any]:
    """Return the items listed at a URL, page by page. PyIceberg would follow a repeated token without end."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    def ask(token: str | None) -> tuple[list[object], str | None]:
        more = {} if token is None else {"pageToken": token}
        document = _get(catalog, url, {**params, **more}, NoSuchNamespaceError)
        return document.get(key) or [], document.get("next-page-token")

    return read_pages(catalog.name, key, ask)


def _name(parts: object) -> Name:
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise StorageError("The catalog's answer is invalid: a name is not a list of texts", cause="CatalogAnswer")
    return tuple(parts)


def _object(answer: Mapping[str, object], key: str) -> Mapping[str, Any]:
    """Return the object under a key of an answer, or an empty one if the key is missing."""
    value = answer.get(key) or {}
    if not isinstance(value, dict):
        raise StorageError(f"The catalog's answer is invalid: its {key} is not a JSON object")
    return value


def _refuse_view(catalog: Any, name: Name) -> None:
    from pyiceberg.catalog.rest import Endpoints
    from pyiceberg.exceptions import NoSuchViewError

    path = catalog._split_identifier_for_path(name)
    try:
        url = catalog.url(Endpoints.view_exists, namespace=path["namespace"], view=path["table"])
        document = _get(catalog, url, {}, NoSuchViewError)
    except Exception:  # there is no such view, or the server has no views: the caller reports that the table is missing
        return
    metadata = document.get("metadata") or {}
    current = metadata.get("current-version-id")
    versions = [each for each in metadata.get("versions") or () if each.get("version-id") == current]
    texts = [each.get("sql") for version in versions for each in version.get("representations") or ()]
    query = " ".join(str(texts[0]).split()) if texts else "unknown"
    raise IsAViewError(f"Cannot read a view; query its tables instead. Its SQL is {query}", table=name_text(name))


def _get(catalog: Any, url: str, params: Mapping[str, str], absent: type[Exception]) -> dict[str, Any]:
    """Return the JSON object at a URL of a REST catalog."""
    from pyiceberg.catalog.rest.response import _handle_non_200_response

    response = renewing_token(catalog, lambda: catalog._session.get(url, params=params))
    try:
        response.raise_for_status()
    except Exception as error:  # an error of requests, which has no type annotations
        _handle_non_200_response(error, {404: absent})
    document = response.json()
    if not isinstance(document, dict):
        raise StorageError("The catalog's answer is not a JSON object")
    return document


def renewing_token(catalog: Any, send: Callable[[], Any]) -> Any:
    """Return the response to a request to a REST catalog. An expired token is renewed once."""
    response = send()
    if response.status_code in (401, 419):
        catalog._refresh_token()
        response = send()
    return response


def record_format(parameters: Mapping[str, str]) -> str | None:
    """Return the format of a Glue or Hive table from its parameters, in lower case, or None if unknown."""
    values = (parameters.get(key) for key in ("table_type", "spark.sql.sources.provider", "classification"))
    formats = [value.lower() for value in values if value]
    return next((value for value in formats if value in (_ICEBERG, _DELTA)), formats[0] if formats else None)


def _record_answer(catalog: Any, name: Name, *, is_glue: bool) -> Answer:
    """Return the answer of Glue or Hive, whose records have parameters and, for tables written by Spark, a path."""
    from pyiceberg.exceptions import NoSuchTableError

    database, table = catalog.identifier_to_database_and_table(name, NoSuchTableError)
    if is_glue:
        record = catalog._get_glue_table(database_name=database, table_name=table)
        described = record.get("StorageDescriptor") or {}
        serde = (described.get("SerdeInfo") or {}).get("Parameters")
        parameters, location, kind = record.get("Parameters") or {}, described.get("Location"), record.get("TableType")
    else:
        with catalog._client as client:
            record = catalog._get_hive_table(client, database, table)
        serde = getattr(getattr(record.sd, "serdeInfo", None), "parameters", None)
        parameters, location, kind = record.parameters or {}, getattr(record.sd, "location", None), record.tableType
    path = (serde or {}).get("path")
    table_format, metadata = record_format(parameters), parameters.get("metadata_location")
    # Spark writes the location of a Delta table into the parameters, and sometimes a placeholder as the location.
    if table_format == _DELTA and (path or location):
        return Answer(format=_DELTA, location=path or location)
    if table_format == _ICEBERG and metadata:
        return Answer(format=_ICEBERG, metadata_location=metadata, places=_places(location))
    if (kind or "").upper() == "VIRTUAL_VIEW":
        raise IsAViewError("Cannot read a view; query its tables instead", table=name_text(name))
    if table_format in (_DELTA, _ICEBERG):
        reason = f"Cannot read a table of format {table_format} whose catalog does not name its location"
    else:
        reason = f"Cannot read a table of format {table_format or 'unknown'}: harness reads Iceberg and Delta"
    raise UnsupportedError(reason, table=name_text(name))


def answer_of_table(table: Any) -> Answer:
    """Return the location in a PyIceberg `Table`, with its current metadata."""
    return Answer(
        format=_ICEBERG,
        metadata_location=table.metadata_location,
        properties=table.io.properties,
        places=_places(table.metadata.location, table.metadata.properties),
    )


def _places(location: object, recorded: Mapping[str, object] | None = None, *prefixes: object) -> tuple[str, ...]:
    """Return the table's location, the paths in its properties, and the prefixes of credentials, if they are text."""
    paths = (location, *((recorded or {}).get(key) for key in _WRITE_PATHS), *prefixes)
    return tuple(dict.fromkeys(path for path in paths if isinstance(path, str)))


class MetadataFileFound(Exception):  # used to return a value
    """The location of the metadata file that a catalog is about to read, raised as an exception to return it."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location


class MetadataFinder:
    """A `FileIO` that raises `MetadataFileFound` for the first file to be read, and never writes.

    All PyIceberg catalogs except REST parse a metadata file before they answer. Parsing would require a second client
    of the store, and would refuse tables that harness can read.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties = properties

    def new_input(self, location: str) -> NoReturn:
        """Raise `MetadataFileFound` with the location."""
        raise MetadataFileFound(location)

    def new_output(self, location: object) -> NoReturn:
        """Raise PermissionError, because catalogs are only read."""
        raise PermissionError(location)

    delete = new_output
