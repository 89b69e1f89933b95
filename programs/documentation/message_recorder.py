"""A pytest plug-in that records the messages that tests provoke. `messages.py --run` uses it."""

import json
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "harness"
_TRANSPARENT = {"__init__", "untrusted_table_error", "warn"}
_seen: set[tuple[str, int, str]] = set()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that sets the folder of the records."""
    parser.addoption("--record-messages", metavar="FOLDER", help="write a JSON file of messages for each process")


def _record(text: str) -> None:
    frame = sys._getframe(2)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if frame.f_code.co_name not in _TRANSPARENT:
            if path.is_relative_to(PACKAGE):
                _seen.add((str(path.relative_to(PACKAGE)), frame.f_lineno, _without_places(text)))
            return
        frame = frame.f_back


def _without_places(text: str) -> str:
    """Return a message without the temporary directories of this run."""
    text = re.sub(
        rf"(?:file://)?{re.escape(tempfile.gettempdir())}/pytest-of-\w+/pytest-\d+/(?:popen-gw\d+/)?[\w.-]+?\d*/",
        "",
        text,
    )
    text = text.replace(str(PACKAGE.parent), ".")
    return re.sub(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", "UUID", " ".join(text.split()))


def pytest_configure(config: pytest.Config) -> None:
    """Wrap the functions that make messages."""
    if not config.getoption("--record-messages"):
        return
    import click

    from harness import errors
    from harness.cli import terminal

    make_error, refuse_usage, show_warning, show_note, show_step = (
        errors.HarnessError.__init__,
        click.UsageError.__init__,
        warnings.warn,
        terminal.message,
        terminal.progress,
    )

    def error(self: errors.HarnessError, message: str, *arguments: object, **places: object) -> None:
        make_error(self, message, *arguments, **places)  # type: ignore[arg-type]
        _record(self.message)

    def usage(self: click.UsageError, message: str, *arguments: object, **options: object) -> None:
        refuse_usage(self, message, *arguments, **options)  # type: ignore[arg-type]
        _record(message)

    def warn(message: object, category: object = None, *arguments: object, **options: object) -> None:
        if isinstance(category, type) and issubclass(category, errors.HarnessWarning):
            _record(str(message))
        if "stacklevel" in options:
            options["stacklevel"] = int(options["stacklevel"]) + 1  # type: ignore[call-overload]
        show_warning(message, category, *arguments, **options)  # type: ignore[call-overload]

    def note(text: str) -> None:
        _record(text)
        show_note(text)

    def step(text: str, *arguments: object, **options: object) -> object:
        _record(text)
        return show_step(text, *arguments, **options)  # type: ignore[arg-type]

    errors.HarnessError.__init__ = error  # type: ignore[method-assign, assignment]
    click.UsageError.__init__ = usage  # type: ignore[method-assign, assignment]
    warnings.warn = warn  # type: ignore[assignment]
    terminal.message = note
    terminal.progress = step  # type: ignore[assignment]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the messages of this process."""
    if folder := session.config.getoption("--record-messages"):
        name = os.environ.get("PYTEST_XDIST_WORKER", "main")
        Path(folder, f"{name}.json").write_text(json.dumps(sorted(_seen)), "utf-8")
