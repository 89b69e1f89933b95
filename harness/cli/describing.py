"""`harness info`, `plan` and `list`: a table's metadata, the files of a read, and the tables of a catalog."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from harness.cli import options, results, terminal, untrusted
from harness.cli.document import json_document, print_document, text_document
from harness.cli.option_texts import names, storage_options
from harness.errors import RequestError, visible, visible_lines
from harness.metadata.catalogs.catalog import Catalog, Name, absent_namespace, parse_name, walk, written
from harness.metadata.catalogs.resolving import configured, no_catalogs, open_catalog


@options.grouped
def info(
    location: options.Location,
    format_: options.Format = options.Document.TEXT,
    *,
    context: typer.Context,
    opening: options.OpeningOptions,
    trust: options.TrustOptions,
) -> None:
    """Describe a table: format, schema, partitioning, snapshots, branches and tags, properties."""
    if untrusted.is_for_worker(trust):
        untrusted.run(context, trust, [location], opening.roots())
        return
    with terminal.progress("reading metadata"):
        content = opening.open(location, trust).describe()
    print_document("info", content, format_)


@options.grouped
def plan(
    location: options.Location,
    where: options.Where = None,
    columns: options.Columns = None,
    format_: options.Format = options.Document.TEXT,
    *,
    context: typer.Context,
    selector: options.SnapshotOptions,
    opening: options.OpeningOptions,
    reading: options.ReadingOptions,
    trust: options.TrustOptions,
) -> None:
    """Show what a read of the table would do, without reading any rows."""
    if untrusted.is_for_worker(trust):
        untrusted.run(context, trust, [location], opening.roots())
        return
    with terminal.progress("planning"):
        chosen = selector.select(opening.open(location, trust, reading))
        scan = chosen.plan(columns=names(columns, "--columns"), where=where)
        match format_:
            case options.Document.TEXT:
                text = explained(scan.explain())
            case options.Document.JSON:
                text = json_document("plan", scan.to_dict())
    results.print_result(text)


def explained(text: str) -> str:
    """The text of `ScanPlan.explain()` for a terminal, with the table's control characters escaped."""
    return visible_lines(text.rstrip("\n")) + "\n"


def list_(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="A catalog, a namespace such as prod.sales, or a warehouse directory."),
    ] = None,
    catalog: options.CatalogName = None,
    recursive: Annotated[
        bool, typer.Option("--recursive", help="All tables below, of inner namespaces too, and no namespaces.")
    ] = False,
    storage_option: options.StorageOption = None,
    verbose: options.Verbose = False,
    format_: options.Format = options.Document.TEXT,
) -> None:
    """List what is in a catalog or namespace, or which catalogs are configured."""
    if verbose:
        terminal.say_more()
    if name is None and catalog is None:
        content = {"catalogs": _catalogs()}
    else:
        with terminal.progress("asking the catalog"):
            found, namespace = _meant(name, catalog, storage_options(storage_option))
            content = _inside(found, namespace, recursive=recursive)
    match format_:
        case options.Document.TEXT:
            results.print_result(*_lines(content))
        case options.Document.JSON:
            results.print_result(json_document("list", content))


def _catalogs() -> list[dict[str, Any]]:
    """The name, type and warehouse of each configured catalog, without anything that may be secret."""
    return [
        {"name": name, "type": each.kind, "warehouse": each.warehouse} for name, each in sorted(configured().items())
    ]


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


def _lines(content: dict[str, Any]) -> Iterator[str]:
    """A name a line, with a dot behind a namespace; catalogs as a table."""
    if "catalogs" in content:
        if not content["catalogs"]:
            terminal.message(no_catalogs())
            return
        yield from text_document(content)
        return
    yield from (f"{visible(name)}.\n" for name in content["namespaces"])
    yield from (f"{visible(name)}\n" for name in content["tables"])
