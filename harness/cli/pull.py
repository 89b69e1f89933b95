"""`harness pull`: copies a slice of a table to a directory."""

from __future__ import annotations

import os
import secrets
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from harness.cli import options, results, terminal
from harness.cli.document import DocumentOutput, text_document
from harness.cli.options import names
from harness.cli.parameters import Argument, Option
from harness.errors import RequestError, size_text

if TYPE_CHECKING:
    from harness.slices.pulling import PullResult

_KEY = "HARNESS_ANONYMISE_KEY"
"""The environment variable that contains the key."""


def pull(
    location: options.Location,
    directory: Annotated[str, Argument(metavar="DIR", help="The directory for the slice, new or empty.")],
    where: options.Where = None,
    at: options.AtOption = None,
    last: Annotated[int, Option(metavar="N", help="Include the N newest snapshots, for time travel.")] = 1,
    columns: options.ColumnsOption = None,
    exact: Annotated[
        bool,
        Option("--exact", help="Only keep rows that match the condition. Files that lose rows are rewritten."),
    ] = False,
    sample_rows: Annotated[
        int | None,
        Option(metavar="N", help="Keep N of the rows, and the same share of the deleted rows."),
    ] = None,
    anonymise: Annotated[
        bool,
        Option(
            "--anonymise",
            help="Replace all values, including descriptive texts. Equal values stay equal, also between "
            "slices with the same key.",
        ),
    ] = False,
    key_file: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="The key for --anonymise: the first line of this file, or the environment variable "
            "HARNESS_ANONYMISE_KEY. Without a key, a random key is used and discarded.",
        ),
    ] = None,
    refresh: Annotated[
        bool,
        Option("--refresh", help="Update the slice in DIR to the newest snapshot, with the options of its pull."),
    ] = False,
    *,
    out: DocumentOutput,
    opening: options.OpeningOptions,
) -> None:
    """Copy part of a table: a slice with the files that a filter needs.

    Examples:
        harness pull prod.sales.orders tests/orders --where "region = 'eu'" --exact
        harness pull warehouse/orders slice --sample-rows 1000 --anonymise
        harness pull warehouse/orders slice --refresh

    A slice is a table of the same format that any reader can read. Under the filter, the slice and its source return
    the same rows. An interrupted pull leaves no table; run the same command again to continue.
    """
    if opening.untrusted:
        raise RequestError(
            "Cannot pull with --untrusted: this process would have to write the slice, but only a worker may read it"
        )
    if key_file is not None and not anonymise:
        raise click.BadParameter("--key-file requires --anonymise")
    with terminal.progress("planning"):
        table = opening.open(location)
    with terminal.progress("copying"):
        pulled = table.pull(
            directory,
            at=at,
            where=where,
            last=last,
            columns=names(columns, "--columns"),
            exact=exact,
            sample_rows=sample_rows,
            anonymise=_key(key_file) if anonymise else None,
            refresh=refresh,
        )
    words = _summary(pulled)
    out.show("pull", asdict(pulled), lambda: text_document(words, results.width_for(out.output)))
    if where is not None and not exact and sample_rows is None:
        with terminal.progress("planning"):
            planned = table.snapshot(at).plan(columns=(), where=where)
        number = planned.files.num_rows
        if number and not (planned.skipped or planned.counts.manifests_skipped):
            terminal.message(f"the filter skipped 0 of {number:,} files, so the slice has all rows; --exact drops rows")
    terminal.finished(f"pulled {pulled.files:,} files, {size_text(pulled.bytes)},")


def _summary(pulled: PullResult) -> dict[str, object]:
    """Return the outcome of a pull for a person, without facts that do not apply."""
    content = {name: value for name, value in asdict(pulled).items() if name not in ("reused", "made", "notes")}
    if pulled.reused:
        content["reused"] = f"{pulled.reused:,} files of an interrupted pull"
    content["slice"] = "complete" if pulled.made else "it has the newest snapshot"
    return content | ({"notes": list(pulled.notes)} if pulled.notes else {})


def _key(file: Path | None) -> str:
    """Return the key for pseudonyms."""
    if file is None:
        return os.environ.get(_KEY) or secrets.token_hex()
    try:
        return file.read_text(encoding="utf-8").split("\n", 1)[0].strip()
    except (OSError, UnicodeError) as error:
        raise RequestError(f"Cannot read --key-file {file}: {error}") from error
