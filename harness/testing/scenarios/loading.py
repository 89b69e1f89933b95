"""Scenario files: found, read and written.

Strict: a key that nobody knows, a value of the wrong type, a feature that does not exist is a RequestError that names
the file and the key. Operations are checked when they run, see `iceberg_history` and `delta_history`.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import errors
from harness.errors import HarnessError, RequestError
from harness.testing.scenarios import yaml_text
from harness.testing.scenarios.arguments import Arguments, checked
from harness.testing.scenarios.features import FEATURES, features_of
from harness.testing.scenarios.model import Expectation, ExpectedError, Scenario, Selector, SelectorKind

_SELECTORS: dict[SelectorKind, tuple[type, ...]] = {
    "snapshot": (str, int),
    "ref": (str,),
    "version": (int,),
    "timestamp": (int, str),
    "changes": (list,),
}


def fixtures_directory() -> Path:
    """Where the scenarios are: beside the package in a checkout, inside it in an installed wheel.

    Raises:
        RequestError: there are none; then the installation is not whole.
    """
    package = Path(errors.__file__).parent
    for candidate in (package / "fixtures", package.parent / "fixtures"):
        if candidate.is_dir():
            return candidate
    raise RequestError(f"No scenarios beside {package}: install lakeharness from its wheel, or use a checkout")


def find(glob: str = "*", directory: Path | None = None) -> list[Scenario]:
    """The scenarios whose name matches a pattern, by name; `*` matches any part of a path, as in `iceberg/deletes/*`.

    glob: of names as `Scenario.name`. directory: holds the files; None: the scenarios that come with harness.

    Raises:
        RequestError: none matches, or a file is no scenario.
    """
    root = fixtures_directory() if directory is None else directory
    files = {path.relative_to(root).with_suffix("").as_posix(): path for path in root.rglob("*.yaml")}
    chosen = sorted(name for name in files if fnmatch.fnmatchcase(name, glob))
    if not chosen:
        raise RequestError(
            f"No scenario matches {glob!r} in {root}: there are {len(files)}, such as {next(iter(files), '-')}"
        )
    return [load(files[name], name) for name in chosen]


def load(path: Path, name: str | None = None) -> Scenario:
    """The scenario in a file.

    name: what to call it; None: the file's name without its ending.

    Raises:
        RequestError: the file cannot be read, or is no scenario; the message names the key.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise RequestError(f"Cannot read the scenario {path}: {exc}") from exc
    return parse(text, path.stem if name is None else name, path=path)


def parse(text: str, name: str, *, path: Path | None = None) -> Scenario:
    """The scenario that a text says. name: for `Scenario.name`. path: where it came from, for messages.

    Raises:
        RequestError: it is no scenario; the message names the key.
    """
    return from_mapping(yaml_text.parse(text, name if path is None else str(path)), name, path=path)


def from_mapping(mapping: Any, name: str, *, path: Path | None = None) -> Scenario:
    """The scenario that a mapping says, with the keys and values of a file.

    Raises:
        RequestError: it is no scenario; the message names the key.
    """
    place = name if path is None else str(path)
    given = Arguments(mapping, place)
    title = given.text("title")
    format_ = given.one_of("format", ("iceberg", "delta"))
    clauses = given.texts("clauses")
    features = given.texts("features", [])
    _check_features(features, format_, place)
    table = given.of(dict, "table")
    history = given.of(list, "history", [])
    expect = given.any("expect")
    given.finish()
    expectations = expect if isinstance(expect, list) else [expect]
    return Scenario(
        name=name,
        path=path,
        title=title,
        format=format_,
        clauses=tuple(clauses),
        features=tuple(features),
        table=table,
        history=tuple(checked(dict, step, f"{place}, history step {i}") for i, step in enumerate(history, 1)),
        expectations=tuple(_expectation(e, f"{place}, expectation {i}") for i, e in enumerate(expectations, 1)),
    )


def dump(scenario: Scenario) -> str:
    """The text of a scenario: what `parse` reads as an equal one, short parts on one line, rows one below the other."""
    document: dict[str, Any] = {
        "title": scenario.title,
        "format": scenario.format,
        "clauses": list(scenario.clauses),
        "features": list(scenario.features),
        "table": scenario.table,
        "history": list(scenario.history),
        "expect": [_dumped(e) for e in scenario.expectations],
    }
    return yaml_text.write(document)


def _check_features(names: list[str], format_: str, place: str) -> None:
    known = features_of(format_)
    for name in names:
        if name in FEATURES and name not in known:
            raise RequestError(f"Invalid feature {name!r} in {place}: {format_} tables do not have it")
        if name not in known:
            raise RequestError(f"Unknown feature {name!r} in {place}: there are {', '.join(sorted(known))}")


def _expectation(value: Any, place: str) -> Expectation:
    given = Arguments(value, place)
    columns = given.texts("columns", None)
    expectation = Expectation(
        at=_selector(given.any("at", None), f"{place}, key 'at'"),
        columns=None if columns is None else tuple(columns),
        where=given.of(str, "where", None),
        rows=_rows(given, place) if given.has("rows") else None,
        error=_error(given, place) if given.has("error") else None,
        open=given.of(str, "open", None),
        types=given.of(dict, "types", {}),
        catalog=given.any("catalog", None),
    )
    given.finish()
    outcomes = (expectation.rows is not None) + (expectation.error is not None)
    if outcomes > 1 or (outcomes == 0 and expectation.open is None):
        raise RequestError(f"Invalid {place}: expected either rows or error (with `open`, at most one of them)")
    return expectation


def _rows(given: Arguments, place: str) -> Any:
    rows = given.any("rows")
    return rows if isinstance(rows, Mapping) else checked(list, rows, f"{place}, key 'rows'")


def _error(given: Arguments, place: str) -> ExpectedError:
    kind = given.text("error")
    known = getattr(errors, kind, None)
    if not (isinstance(known, type) and issubclass(known, HarnessError)):
        raise RequestError(f"Unknown error {kind!r} in {place}: expected a class of harness.errors")
    return ExpectedError(kind, given.of(str, "match", None), given.of(str, "cause", None))


def _selector(value: Any, place: str) -> Selector:
    if value is None:
        return Selector()
    given = Arguments(value, place)
    for kind, types in _SELECTORS.items():
        if given.has(kind):
            chosen: Any = given.any(kind)
            fits = isinstance(chosen, types) and not isinstance(chosen, bool)
            if not fits:
                raise RequestError(f"Invalid {kind!r} in {place}: got {chosen!r}")
            given.finish()
            return Selector(kind, tuple(chosen) if isinstance(chosen, list) else chosen)
    raise RequestError(f"Invalid {place}: expected one of {', '.join(_SELECTORS)}")


def _dumped(expectation: Expectation) -> dict[str, Any]:
    at, error = expectation.at, expectation.error
    entries: dict[str, Any] = {
        "at": None if at.kind == "current" else {at.kind: at.value},
        "columns": None if expectation.columns is None else list(expectation.columns),
        "where": expectation.where,
        "open": expectation.open,
        "error": None if error is None else error.kind,
        "match": None if error is None else error.match,
        "cause": None if error is None else error.cause,
        "types": dict(expectation.types) or None,
        "catalog": expectation.catalog,
        "rows": expectation.rows,
    }
    return {key: value for key, value in entries.items() if value is not None}
