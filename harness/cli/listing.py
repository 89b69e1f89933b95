"""`harness list`: the catalogs that are configured, and the namespaces and tables of one catalog."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from harness.cli import options, terminal
from harness.cli.document import Printed, text_document
from harness.cli.options import storage_options
from harness.errors import RequestError, visible
from harness.metadata.catalogs.catalog import Catalog, Name, absent_namespace, parse_name, walk, written
from harness.metadata.catalogs.resolving import configured, no_catalogs, open_catalog


@options.grouped
def list_(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="A catalog, a namespace such as prod.sales, or a warehouse directory."),
    ] = None,
    catalog: options.CatalogName = None,
    recursive: Annotated[
        bool, typer.Option("--recursive", help="List all tables below, also in inner namespaces, and no namespaces.")
    ] = False,
    storage_option: options.StorageOption = None,
    verbose: options.Verbose = False,
    *,
    out: Printed,
) -> None:
    """List the tables of a catalog or namespace, or the catalogs.

    Examples:
        harness list
        harness list prod.sales
        harness list warehouse --recursive
    """
    if verbose:
        terminal.say_more()
    content: dict[str, Any]
    if name is None and catalog is None:
        shown = sorted(configured().items())  # without anything that may be secret
        content = {"catalogs": [{"name": n, "type": each.kind, "warehouse": each.warehouse} for n, each in shown]}
    else:
        with terminal.progress("asking the catalog"):
            found, namespace = _meant(name, catalog, storage_options(storage_option))
            content = _inside(found, namespace, recursive=recursive)

    def lines() -> Iterator[str]:  # a name a line, with a dot behind a namespace; catalogs as a table
        if "catalogs" not in content:
            yield from (f"{visible(each)}.\n" for each in content["namespaces"])
            yield from (f"{visible(each)}\n" for each in content["tables"])
        elif content["catalogs"]:
            yield from text_document(content)
        else:
            terminal.message(no_catalogs())

    out.show("list", content, lines)


def _meant(name: str | None, catalog: str | None, storage: dict[str, Any]) -> tuple[Catalog, Name]:
    """The catalog, and the namespace in the catalog."""
    if catalog is not None:
        return open_catalog(catalog, storage_options=storage), parse_name(name) if name else ()
    assert name is not None
    if "/" in name or os.path.isdir(name):
        return open_catalog(name, storage_options=storage), ()
    first, *rest = parse_name(name)
    return open_catalog(first), tuple(rest)


def _inside(catalog: Catalog, namespace: Name, *, recursive: bool) -> dict[str, Any]:
    """The full names in a namespace."""
    inner = () if recursive else catalog.namespaces(namespace)
    tables = tuple(walk(catalog, namespace)) if recursive else catalog.tables(namespace)
    if not (inner or tables):
        if namespace and namespace in catalog.tables(namespace[:-1]):
            whole = written((catalog.name, *namespace))
            raise RequestError(f"Cannot list {whole}: it is a table; harness info describes it")
        missing = absent_namespace(catalog, namespace)
        if missing is not None:
            raise missing
    return {
        "catalog": catalog.name,
        "namespace": list(namespace),
        "namespaces": [written((catalog.name, *each)) for each in inner],
        "tables": [written((catalog.name, *each)) for each in tables],
    }
