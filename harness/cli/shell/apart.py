"""`harness shell --untrusted`: each input runs in a worker of its own, as the shell runs it here.

What a statement leaves behind, such as a temporary table or a USE, goes with its worker. From a pipe, all is one input.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from harness.catalogs.resolving import open_catalog
from harness.catalogs.warehouse import Warehouse
from harness.cli.shell import dot_commands
from harness.cli.shell.session import guarded
from harness.cli.writers import RowFormat
from harness.errors import RequestError


class ApartSession:
    """As `harness.cli.shell.session.Session`, for inputs that run in workers. What only sets something is done here.

    run_apart: runs an input in a worker, given how rows are shown there; tells whether all of it could be done.
    """

    connection = None

    def __init__(
        self, run_apart: Callable[[str, dict[str, object]], bool], *, row_format: RowFormat, max_rows: int | None
    ) -> None:
        self.row_format, self.max_rows = row_format, max_rows
        self.has_failed, self.is_over = False, False
        self._run_apart, self._last = run_apart, ""

    def run(self, text: str) -> None:
        """Run a command, or statements."""
        self.has_failed = not guarded(partial(self._run, text)) or self.has_failed

    def run_all(self, text: str) -> None:
        """Run all that a pipe holds, in one worker."""
        if text.strip():
            self.has_failed = not guarded(partial(self._run_there, text)) or self.has_failed

    def _run(self, text: str) -> None:
        if text.startswith(".") and dot_commands.set_only(self, text):
            return
        if text.rstrip(" ;") == ".plan":
            text = f".plan {' '.join(self._last.split())}"
        elif not text.startswith("."):
            self._last = text
        self._run_there(text)

    def _run_there(self, text: str) -> None:
        shown = "all" if self.max_rows is None else str(self.max_rows)
        if not self._run_apart(text, {"format_": self.row_format, "max_rows": shown}):
            self.has_failed = True


def warehouse(source: str | None) -> str | None:
    """The directory whose tables are there by name; None: none was said.

    Raises:
        RequestError: the catalog is none that a worker can ask.
        HarnessError: it is not there, see `harness.catalogs.resolving.open_catalog`.
    """
    if source is None:
        return None
    found = open_catalog(source)
    if not isinstance(found, Warehouse):
        raise RequestError(
            f"Cannot ask catalog {source} with --untrusted: there is no network where it reads; give a warehouse "
            "directory, or tables by --table NAME=PATH"
        )
    return found.location
