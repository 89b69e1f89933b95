"""`harness pull`: a slice of a table in a directory."""

from __future__ import annotations

import os
import secrets
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from harness.cli import options, results, terminal
from harness.cli.document import Printed, text_document
from harness.cli.options import names
from harness.cli.parameters import Argument, Option
from harness.errors import RequestError, size_text
from harness.metadata.catalogs.catalog import parse_name, written
from harness.storage.paths import expanded, is_local, local_path, may_be_name, slashed

if TYPE_CHECKING:
    from harness.slices.pulling import Pulled

_KEY = "HARNESS_ANONYMISE_KEY"
"""Names the key in the environment. Read here: versions of Typer differ in it."""


def pull(
    location: options.Location,
    directory: Annotated[str, Argument(metavar="DIR", help="A new or empty directory, for the slice.")],
    where: options.Where = None,
    at: options.AtOption = None,
    last: Annotated[int, Option(metavar="N", help="Take so many of the newest snapshots, for time travel.")] = 1,
    columns: options.ColumnsOption = None,
    exact: Annotated[
        bool,
        Option("--exact", help="Leave out rows that the condition drops: files that lose rows are rewritten."),
    ] = False,
    sample_rows: Annotated[
        int | None,
        Option(metavar="N", help="Keep so many of the rows, and as large a share of the deleted rows."),
    ] = None,
    seed: Annotated[int, Option(metavar="S", help="Choose other rows for --sample-rows.")] = 0,
    compact: Annotated[
        bool, Option("--compact", help="Apply the deletes: live rows only, and no delete files.")
    ] = False,
    anonymise: Annotated[
        bool,
        Option(
            "--anonymise",
            help="Replace all values by others, texts of people too. Equal values stay equal, also between"
            " slices with one key.",
        ),
    ] = False,
    key: Annotated[
        str | None,
        Option(
            metavar="TEXT",
            help="Choose the values of --anonymise. Others on the machine may see the key: better --key-file, or "
            "HARNESS_ANONYMISE_KEY in the environment. Without one the key is random, and nobody learns it.",
        ),
    ] = None,
    key_file: Annotated[Path | None, Option(metavar="FILE", help="Take the key from the first line of a file.")] = None,
    without_statistics: Annotated[
        bool, Option("--without-statistics", help="Leave bounds and counts of values out of the metadata.")
    ] = False,
    reverse: Annotated[bool, Option("--reverse", help="List the files in the reverse order in the metadata.")] = False,
    max_bytes: Annotated[
        int | None, Option(metavar="N", help="Copy nothing if the slice needs more bytes of the source.")
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Count the files and bytes of the slice; write nothing.")
    ] = False,
    follow: Annotated[
        list[str] | None,
        Option(
            metavar="A.X=B.Y",
            help="Take the rows of table B, beside TABLE, whose Y is an X of A; slices go into DIR/A and "
            "DIR/B. Repeatable.",
        ),
    ] = None,
    refresh: Annotated[
        bool,
        Option("--refresh", help="Bring the slice in DIR to the newest snapshot, under the options of its pull."),
    ] = False,
    *,
    out: Printed,
    opening: options.OpeningOptions,
) -> None:
    """Copy a slice of a table, with the files that a filter needs.

    Examples:
        harness pull prod.sales.orders tests/orders --where "region = 'eu'" --exact
        harness pull warehouse/orders slice --sample-rows 1000 --anonymise
        harness pull warehouse/orders slice --refresh

    A slice is a table of the same format, for any reader. Under the filter it gives the rows of the source. An
    interrupted pull leaves no table, and the same command goes on where it ended.
    """
    from harness.slices.pulling import make, pull_joined
    from harness.slices.pulling import refresh as refresh_slice
    from harness.slices.request import SliceRequest

    if opening.untrusted:
        raise RequestError("Cannot pull with --untrusted: a slice is written here, not in the process without rights")
    for name in _OF_A_SLICE if refresh else ():
        given = opening.context.get_parameter_source(name)
        if given is not None and given.name == "COMMANDLINE":
            raise click.BadParameter(f"--refresh excludes --{name.replace('_', '-')}: the slice is as it was pulled")
    for option, value in (("--key", key), ("--key-file", key_file)):
        if value is not None and not anonymise:
            raise click.BadParameter(f"{option} is for --anonymise, which is not asked for")
    if follow and dry_run:
        raise click.BadParameter("--follow excludes --dry-run: which rows are referred to shows in the slice")
    request = SliceRequest(
        where=where,
        last=last,
        columns=tuple(names(columns, "--columns") or ()) or None,
        exact=exact,
        sample_rows=sample_rows,
        seed=seed,
        compact=compact,
        anonymise=_key(key, key_file) if anonymise else None,
        statistics=not without_statistics,
        reverse=reverse,
        max_bytes=max_bytes,
    )
    with terminal.progress("planning"):
        snapshot = opening.snapshot(location, at)
    with terminal.progress("copying"):
        if follow:
            own, beside = _around(location, opening, follow)
            others = {name: opening.open(place) for name, place in beside.items()}
            pulled = pull_joined({own: snapshot, **others}, directory, follow=follow, request=request)
        elif refresh:
            pulled = {"": refresh_slice(snapshot, directory)}
        else:
            from harness.snapshot import reading as reading_of

            with reading_of(snapshot.source, snapshot.selection.snapshot):
                pulled = {"": make(snapshot, Path(directory), request, dry_run=dry_run)}
    found, told = list(map(asdict, pulled.values())), [_in_words(each, refresh=refresh) for each in pulled.values()]
    if follow:
        found, told = ([{"table": n} | each for n, each in zip(pulled, of, strict=True)] for of in (found, told))
    kind, content, words = ("pulls", {"tables": found}, {"tables": told}) if follow else ("pull", found[0], told[0])
    out.show(kind, content, lambda: text_document(words, results.width_for(out.output)))
    if where is not None and not exact and sample_rows is None:
        with terminal.progress("planning"):
            planned = snapshot.plan(columns=(), where=where)
        number = planned.files.num_rows
        if number and not (planned.skipped or planned.counts.manifests_skipped):
            terminal.message(f"the filter skipped 0 of {number:,} files, so the slice has all rows; --exact drops rows")
    files, size = (sum(each[name] for each in found) for name in ("files", "bytes"))
    terminal.finished(f"{'planned' if dry_run else 'pulled'} {files:,} files, {size_text(size)},")


def _in_words(pulled: Pulled, *, refresh: bool) -> dict[str, object]:
    """Return what a pull did, for a person: only what happened."""
    content = {name: value for name, value in asdict(pulled).items() if name not in ("reused", "made", "notes")}
    if pulled.reused:
        content["reused"] = f"{pulled.reused:,} files of an interrupted pull"
    unchanged = "it has the newest snapshot" if refresh else "nothing is written, as --dry-run asks"
    content["slice"] = "complete" if pulled.made else unchanged
    return content | ({"notes": list(pulled.notes)} if pulled.notes else {})


def _key(key: str | None, file: Path | None) -> str:
    """The key of the values."""
    if file is None:
        return key if key is not None else os.environ.get(_KEY) or secrets.token_hex()
    if key is not None:
        raise click.BadParameter("--key excludes --key-file")
    try:
        return file.read_text(encoding="utf-8").split("\n", 1)[0].strip()
    except (OSError, UnicodeError) as error:
        raise RequestError(f"Cannot read --key-file {file}: {error}") from error


def _around(location: str, opening: options.OpeningOptions, follow: list[str]) -> tuple[str, dict[str, str]]:
    """The table's own name, and the places of the other tables in its directory or namespace, by name."""
    from harness.slices.pulling import Step

    named = [name for step in map(Step.of, follow) for name in (step.table, step.to_table)]
    if opening.catalog is not None or may_be_name(location):
        *around, own = parse_name(location)
        return own, {name: written((*around, name)) for name in named if name != own}
    plain = local_path(expanded(location))
    if is_local(plain):  # also `.` and paths of Windows
        location = slashed(os.path.abspath(plain))
    parent, slash, own = location.rstrip("/").rpartition("/")
    return own, {name: f"{parent}{slash}{name}" for name in named if name != own}


_OF_A_SLICE = (
    *("where", "at", "last", "columns", "exact", "sample_rows", "seed", "compact", "max_bytes"),
    *("dry_run", "follow", "anonymise", "key", "key_file", "without_statistics", "reverse"),
)
"""Options that the note of a slice holds."""
