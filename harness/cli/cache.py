"""`harness cache`: shows and empties the cache of decoded metadata."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Annotated, Literal

import typer

from harness.cli import options
from harness.cli.document import Printed
from harness.errors import RequestError
from harness.storage.decoded import DIRECTORY, open_folder


@options.grouped
def cache(
    action: Annotated[
        Literal["info", "clear"],
        typer.Argument(metavar="info|clear", help="Show the size of the cache, or remove its files."),
    ],
    *,
    cache_dir: options.CacheDir = None,
    out: Printed,
) -> None:
    """Show or empty the cache of decoded metadata.

    Examples:
        harness cache info
        harness cache clear --cache-dir kept
    """
    directory = os.environ.get(DIRECTORY, "") if cache_dir is None else cache_dir
    if not directory:
        raise RequestError(f"Cannot tell which cache is meant: say --cache-dir, or set {DIRECTORY}")
    folder = open_folder(directory)
    usage = folder.usage() if action == "info" else folder.clear()
    out.show("cache", asdict(usage))
