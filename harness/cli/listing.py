"""`harness list`: the configured catalogs, and the namespaces and tables of a catalog."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from typing import Annotated, Any

from harness.cli import options, results, terminal
from harness.cli.document import DocumentOutput, text_document
from harness.cli.options import storage_options
from harness.cli.parameters import Argument, Option
from harness.errors import RequestError, visible
from harness.metadata.catalogs.catalog import (
    Catalog,
    Name,
    missing_namespace_error,
    name_text,
    parse_name,
    walk_namespaces,
)
from harness.metadata.catalogs.resolving import configured_catalogs, no_catalogs_hint, open_catalog
from harness.metadata.catalogs.warehouse import Warehouse
from harness.storage.paths import is_path, redact


def list_(
    name: Annotated[
        str | None,
        Argument(metavar="NAME", help="A catalog, a namespace (prod.sales), or a warehouse directory."),
    ] = None,
    catalog: options.CatalogName = None,
    recursive: Annotated[
        bool, Option("--recursive", help="List the tables of all nested namespaces, without the namespaces.")
    ] = False,
    storage_option: options.StorageOption = None,
    verbose: options.Verbose = False,
    *,
    out: DocumentOutput,
) -> None:
    """List catalogs, or the tables of a catalog or namespace.

    Examples:
        harness list
        harness list prod.sales
        harness list warehouse --recursive
    """
    if verbose:
        terminal.enable_debug_logs()
    content: dict[str, Any]
    end = "."
    if name is None and catalog is None:
        catalogs = sorted(configured_catalogs().items())  # without possible secrets
        content = {"catalogs": [{"name": n, "type": each.kind, "warehouse": each.warehouse} for n, each in catalogs]}
    else:
        with terminal.progress("asking the catalog"):
            opened, namespace, directory = _locate(name, catalog, storage_options(storage_option))
            content = _contents(opened, namespace, directory, recursive=recursive)
            end = "." if directory is None else "/"

    def lines() -> Iterator[str]:  # one table or namespace per line, and catalogs as a table
        if "catalogs" not in content:
            words = [*(f"{each}{end}" for each in content["namespaces"]), *content["tables"]]
            yield from (f"{visible(_for_shell(each) if is_on_terminal else each)}\n" for each in words)
        elif content["catalogs"]:
            yield from text_document(content)
        else:
            terminal.message(no_catalogs_hint())

    is_on_terminal = out.output is None and results.is_terminal_output()
    out.show("list", content, lines)


def _for_shell(word: str) -> str:
    """Return a name or path in a form that can be pasted into a command, quoted for the shell if necessary."""
    return word if re.fullmatch(r"[\w@%+=:,./-]+", word) else shlex.quote(word)


def _locate(name: str | None, catalog: str | None, storage: dict[str, Any]) -> tuple[Catalog, Name, Warehouse | None]:
    """Return the catalog and the namespace in it, and the catalog again if it was given by location instead of name."""
    if name is not None and not os.path.isdir(name):
        name = name.removesuffix(".")  # a namespace is printed with a period at the end
    if catalog is None and name is not None and not (is_path(name) or os.path.isdir(name)):
        first, *rest = parse_name(name)
        return open_catalog(first), tuple(rest), None
    place = catalog or name
    assert place is not None
    opened = open_catalog(place, storage_options=storage)
    if isinstance(opened, Warehouse) and opened.format_of(opened.location) is not None:
        raise RequestError("Cannot list a table: use harness info to describe it", table=redact(opened.location))
    directory = opened if isinstance(opened, Warehouse) and (is_path(place) or os.path.isdir(place)) else None
    namespace = parse_name(name) if catalog is not None and name else ()
    if namespace and namespace[0].casefold() == opened.name.casefold() and namespace[:1] not in opened.namespaces():
        namespace = namespace[1:]
    return opened, namespace, directory


def _contents(catalog: Catalog, namespace: Name, directory: Warehouse | None, *, recursive: bool) -> dict[str, Any]:
    """Return the contents of a namespace as texts that open them: full names, or paths in a warehouse directory."""
    namespaces = tuple(walk_namespaces(catalog, namespace)) if recursive else (namespace,)
    if directory is None:
        inner = [] if recursive else [name_text((catalog.name, *name)) for name in catalog.namespaces(namespace)]
        tables = [name_text((catalog.name, *name)) for each in namespaces for name in catalog.tables(each)]
    else:
        inner = [] if recursive else [*directory.paths(namespace, are_tables=False)]
        tables = [path for each in namespaces for path in directory.paths(each, are_tables=True)]
    if not (inner or tables):
        if namespace and namespace in catalog.tables(namespace[:-1]):
            whole = name_text((catalog.name, *namespace))
            raise RequestError(f"Cannot list {whole}: it is a table; use harness info to describe it")
        missing = missing_namespace_error(catalog, namespace)
        if missing is not None:
            raise missing
    return {
        "catalog": catalog.name,
        "namespace": list(namespace),
        "namespaces": inner,
        "tables": tables,
    }
