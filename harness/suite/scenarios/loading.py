"""Scenario files: finding and parsing them.

An unknown key, a value of the wrong type, or an unknown feature raises a RequestError that names the file and the key.
Operations are checked when they run.
"""

from __future__ import annotations

import fnmatch
from dataclasses import fields
from pathlib import Path

from harness import errors
from harness.errors import RequestError
from harness.suite.scenarios.arguments import Arguments, checked
from harness.suite.scenarios.features import MEANINGS, features_of
from harness.suite.scenarios.model import Expectation, Scenario


def parse_yaml(text: str, place: str) -> object:
    """Return the only document in a YAML text, as mappings, lists and scalars.

    Raises:
        RequestError: The text is not YAML, or uses a YAML feature that scenarios do not use; the message names the
            line. Or PyYAML is not installed.
    """
    try:
        from harness.suite.scenarios import strict_yaml
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        message = f"Cannot read {place}: PyYAML is not installed; pip install 'lakeharness[suite]'"
        raise RequestError(message) from error
    return strict_yaml.parse(text, place)


def fixtures_directory() -> Path:
    """Return the folder of the scenarios: next to the package in a checkout, inside it in an installed wheel.

    Raises:
        RequestError: There are no scenarios, so the installation is incomplete.
    """
    package = Path(errors.__file__).parent
    for candidate in (package / "fixtures", package.parent / "fixtures"):
        if candidate.is_dir():
            return candidate
    raise RequestError(
        f"There are no scenarios next to {package}: install lakeharness from its wheel, or use a checkout"
    )


def find(glob: str = "*", directory: Path | None = None) -> list[Scenario]:
    """Return the scenarios whose name matches a pattern, sorted by name.

    Args:
        glob: A pattern for `Scenario.name`. `*` matches any text including slashes, as in `iceberg/deletes/*`.
        directory: The directory with the files. None means the scenarios of harness.

    Raises:
        RequestError: No scenario matches, or a file is not a scenario.
    """
    root = fixtures_directory() if directory is None else directory
    files = {path.relative_to(root).with_suffix("").as_posix(): path for path in root.rglob("*.yaml")}
    names = sorted(name for name in files if fnmatch.fnmatchcase(name, glob))
    if not names:
        raise RequestError(
            f"No scenario matches {glob!r} in {root}: it has {len(files)}, for example {next(iter(files), '-')}"
        )
    return [load(files[name], name) for name in names]


def load(path: Path, name: str | None = None) -> Scenario:
    """Return the scenario in a file.

    Args:
        path: The file.
        name: The scenario's name. None means the file's name without its extension.

    Raises:
        RequestError: The file cannot be read or is not a scenario. The message names the key.
    """
    return from_mapping(read_document(path), path.stem if name is None else name, path=path)


def read_document(path: Path) -> object:
    """Return the document in a file.

    Raises:
        RequestError: The file cannot be read, or as for `parse_yaml`.
    """
    try:
        return parse_yaml(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as exc:
        raise RequestError(f"Cannot read the scenario {path}: {exc}") from exc


def parse(text: str, name: str, *, path: Path | None = None) -> Scenario:
    """Return the scenario in a text.

    Args:
        text: The text.
        name: The scenario's name.
        path: The origin of the text, for messages.

    Raises:
        RequestError: The text is not a scenario. The message names the key.
    """
    return from_mapping(parse_yaml(text, name if path is None else str(path)), name, path=path)


def from_mapping(mapping: object, name: str, *, path: Path | None = None) -> Scenario:
    """Return the scenario of a mapping with the keys and values of a file.

    Raises:
        RequestError: The mapping is not a scenario. The message names the key.
    """
    place = name if path is None else str(path)
    arguments = Arguments(mapping, place)
    title = arguments.text("title")
    format_ = arguments.choice("format", ("iceberg", "delta"))
    clauses = arguments.texts("clauses")
    features = arguments.texts("features", [])
    findings = arguments.texts("findings", [])
    available = features_of(format_)
    for feature in (f for f in features if f not in available):
        if feature in MEANINGS:
            raise RequestError(f"Invalid feature {feature!r} in {place}: {format_} tables cannot have it")
        raise RequestError(f"Unknown feature {feature!r} in {place}: the features are {', '.join(sorted(available))}")
    table = arguments.typed(dict, "table")
    history = arguments.typed(list, "history", [])
    expect = arguments.any("expect")
    arguments.finish()
    expectations = expect if isinstance(expect, list) else [expect]
    return Scenario(
        name=name,
        path=path,
        title=title,
        format=format_,
        clauses=tuple(clauses),
        features=tuple(features),
        findings=tuple(findings),
        table=table,
        history=tuple(checked(dict, step, f"{place}, history step {i}") for i, step in enumerate(history, 1)),
        expectations=tuple(_expectation(e, f"{place}, expectation {i}") for i, e in enumerate(expectations, 1)),
    )


def _expectation(value: object, place: str) -> Expectation:
    arguments = Arguments(value, place)
    expectation = Expectation(
        **{
            key.name: key.metadata["take"](arguments, key.name)
            for key in fields(Expectation)
            if arguments.has(key.name)
        }
    )
    arguments.finish()
    outcomes = (expectation.rows is not None) + (expectation.error is not None)
    if outcomes > 1 or (outcomes == 0 and expectation.open is None):
        raise RequestError(f"Invalid {place}: expected either rows or error (with `open`, at most one of them)")
    if expectation.open is not None and expectation.policy is not None:
        raise RequestError(f"Invalid {place}: a result that the specification leaves open cannot be a policy")
    return expectation
