"""A catalog of PyIceberg as a catalog of harness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.catalogs.catalog import Located, absent
from harness.catalogs.names import Name, written
from harness.catalogs.pyiceberg.answers import Answer, answer, record_format
from harness.catalogs.pyiceberg.failures import asking
from harness.catalogs.pyiceberg.store_options import (
    expires_ms,
    named_endpoints,
    own_profiles,
    store_options,
    vended_for,
)
from harness.errors import HarnessError, TableNotFoundError, UnsupportedError
from harness.storage.roots import metadata_root

_SHOWN = 3
_ABSENT = {"NoSuchTableError", "NoSuchNamespaceError", "NoSuchIdentifierError", "NoSuchIcebergTableError"}


@dataclass(frozen=True, slots=True)
class PyIcebergCatalog:
    """Finds tables through a `pyiceberg.catalog.Catalog`, see `harness.catalogs.catalog.Catalog`.

    Tables of Glue and Hive whose provider is Delta are among them.

    said: the properties that the user configured; others are those that its server has the client take.
    """

    name: str
    client: Any = field(repr=False)
    said: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of_client(cls, client: Any) -> PyIcebergCatalog:
        """The catalog of a client that the user made. Only a REST client mixes its properties with its server's."""
        is_rest = "RestCatalog" in {kind.__name__ for kind in type(client).__mro__}
        return cls(client.name, client, {} if is_rest else client.properties)

    def namespaces(self, parent: Name = ()) -> tuple[Name, ...]:
        """The namespaces directly in `parent`; none where there is no such one."""
        with asking(self.name, self._uri, f"namespaces in {written(parent) or 'the root'}"):
            try:
                found = {tuple(each) for each in self.client.list_namespaces(parent)}
            except Exception as error:
                if type(error).__name__ not in _ABSENT:
                    raise
                return ()
        depth = len(parent)
        return tuple(sorted({each[: depth + 1] for each in found if len(each) > depth and each[:depth] == parent}))

    def tables(self, namespace: Name = ()) -> tuple[Name, ...]:
        """The tables directly in a namespace; none where there is no such one. The root holds none."""
        if not namespace:
            return ()
        with asking(self.name, self._uri, f"tables of {written(namespace)}"):
            try:
                found = {tuple(each) for each in self.client.list_tables(namespace)} | self._delta_tables(namespace)
            except Exception as error:
                if type(error).__name__ not in _ABSENT:
                    raise
                return ()
        return tuple(sorted(found))

    def locate(self, name: Name) -> Located:
        """Where a table is, and the credentials that the catalog vends for it.

        Raises:
            TableNotFoundError: there is no table of that name; the message has the nearest names.
            IsAViewError: it is a view's.
            UnsupportedError: the table is neither Iceberg nor Delta.
            StorageError: the catalog does not answer, or refuses the credentials.
        """
        if len(name) < 2:
            inner = ", ".join(written((self.name, *each)) for each in self.namespaces()[:_SHOWN]) or "none"
            raise TableNotFoundError(
                f"Cannot find a table: {written((self.name, *name))} lacks a namespace; there are {inner}",
                cause="NoSuchTable",
            )
        try:
            with asking(self.name, self._uri, f"where {written(name)} is"):
                found = answer(self.client, name)
        except HarnessError as error:
            if error.__cause__ is not None and type(error.__cause__).__name__ in _ABSENT:
                raise absent(self, name) from error.__cause__
            raise
        return located(self, name, found)

    @property
    def _uri(self) -> str | None:
        uri = self.client.properties.get("uri")
        return uri if isinstance(uri, str) else None

    def _delta_tables(self, namespace: Name) -> set[Name]:
        """Those that PyIceberg leaves out, as they are not Iceberg."""
        kinds = {kind.__name__ for kind in type(self.client).__mro__}
        if len(namespace) != 1:
            return set()
        if "GlueCatalog" in kinds:
            pages = self.client.glue.get_paginator("get_tables").paginate(DatabaseName=namespace[0])
            records = [(each["Name"], each.get("Parameters") or {}) for page in pages for each in page["TableList"]]
        elif "HiveCatalog" in kinds:
            with self.client._client as client:
                names = client.get_all_tables(db_name=namespace[0])
                found = client.get_table_objects_by_name(dbname=namespace[0], tbl_names=names)
            records = [(each.tableName, each.parameters or {}) for each in found]
        else:
            return set()
        return {(*namespace, name) for name, parameters in records if record_format(parameters) == "delta"}


def located(catalog: PyIcebergCatalog, name: Name, found: Answer) -> Located:
    """An answer of a catalog as harness takes it."""
    metadata = found.metadata_location
    location = found.location or (None if metadata is None else metadata_root(metadata))
    if location is None:
        raise UnsupportedError("Cannot read a table of which the catalog does not say where it is")
    home = metadata or location

    def properties(path: str) -> Mapping[str, Any]:
        every = {**catalog.client.properties, **found.properties, **vended_for(path, found.vended)}
        return own_profiles(every, catalog.said)

    own = {**found.properties, **vended_for(home, found.vended)}
    ends = min((end for each in ({}, *found.vended.values()) if (end := expires_ms({**own, **each}))), default=None)
    return Located(
        catalog=catalog.name,
        name=name,
        location=location,
        metadata_location=metadata,
        format=found.format,
        storage_options=store_options(properties, home, (location, *found.places)),
        endpoints=named_endpoints(properties, catalog.said, (*found.places, location, home)),
        expires_ms=ends,
        renew=None if ends is None else lambda: catalog.locate(name),
    )
