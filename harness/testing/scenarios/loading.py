"""Scenario files: found, read and written.

YAML is read strictly, in the core types of YAML 1.2: `yes`, `no`, `on` and dates are text; a key that stands twice is
an error; anchors, tags and merge keys are not read. A key that nobody knows, a value of the wrong type, or a feature
that does not exist is a RequestError that names the file and the key. Operations are checked when they run.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from harness import errors
from harness.errors import RequestError
from harness.testing.scenarios.arguments import Arguments, checked
from harness.testing.scenarios.features import MEANINGS, features_of
from harness.testing.scenarios.model import Expectation, Scenario

_MOST_DIGITS = 1_000
_DEEPEST = 200
"""Lists and mappings in each other. libyaml takes a piece of the stack for each, and PyYAML of Python's."""

_INDENT = re.compile(r"^[ ?:-]*", re.MULTILINE)
_CORE = {
    "null": (r"(?:~|null|Null|NULL|)", ["~", "n", "N", ""]),
    "bool": (r"(?:true|True|TRUE|false|False|FALSE)", list("tTfF")),
    "int": (r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)", list("-+0123456789")),
    "float": (
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))",
        list("-+0123456789."),
    ),
}
"""The scalars of YAML's core schema by tag, and the signs that they begin with."""


def parse_yaml(text: str, place: str) -> Any:
    """The one document in a text, as mappings, lists and scalars.

    Raises:
        RequestError: it is no YAML, or uses what scenarios do not use; the message names the line.
    """
    try:
        # Brackets open at most so often, and blocks begin at most twice in a column.
        if text.count("[") + text.count("{") + 2 * max(map(len, _INDENT.findall(text))) >= _DEEPEST:
            _check_depth(text)
        return yaml.load(text, Loader=_Loader)  # a SafeLoader, with other scalars
    except yaml.YAMLError as exc:
        raise RequestError(f"Cannot read {place}: {' '.join(str(exc).split())}") from exc


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """SafeLoader with the scalars of the core schema of YAML 1.2, and without aliases and repeated keys.

    libyaml reads ten times as fast, where PyYAML comes with it.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  # PyYAML's own way to hold them

    def get_single_node(self) -> Any:
        node = super().get_single_node()
        _check_each_stands_once(node)
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, list | dict):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a scalar", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} stands twice", key_node.start_mark)
            seen.add(key)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=True)
        return mapping

    def flatten_mapping(self, node: Any) -> None:
        """Leave `<<` an ordinary key, as YAML 1.2 has it."""


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):  # not by libyaml, which may fail on brackets before it tells
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST:
            mark: Any = event.start_mark
            raise yaml.composer.ComposerError(None, None, "lists and mappings stand too deep in each other", mark)


def _check_each_stands_once(root: Any) -> None:
    """An alias is the node that its anchor names, a second time."""
    seen: set[int] = set()
    waiting = [] if root is None else [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            raise yaml.composer.ComposerError(None, None, "a scenario has no aliases", node.start_mark)
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)
        elif isinstance(node, yaml.MappingNode):
            waiting.extend(part for pair in node.value for part in pair)


def _int(loader: _Loader, node: Any) -> int:
    text = loader.construct_scalar(node)
    if len(text) > _MOST_DIGITS:
        raise yaml.constructor.ConstructorError(None, None, f"a number of {len(text):,} digits", node.start_mark)
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    return int(text[2:] if base != 10 else text, base)


def _float(loader: _Loader, node: Any) -> float:
    text = loader.construct_scalar(node).lower()
    return float(text.replace(".", "", 1) if text[-1].isalpha() else text)  # PyYAML's NaN has a sign


for _tag, (_pattern, _first) in _CORE.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"{_pattern}\Z"), _first)
_Loader.add_constructor("tag:yaml.org,2002:int", _int)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)


def fixtures_directory() -> Path:
    """The folder of the scenarios: beside the package in a checkout, inside it in an installed wheel.

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
    return from_mapping(read_document(path), path.stem if name is None else name, path=path)


def read_document(path: Path) -> Any:
    """The document in a file. Raises RequestError if the file cannot be read, or as `parse_yaml`."""
    try:
        return parse_yaml(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as exc:
        raise RequestError(f"Cannot read the scenario {path}: {exc}") from exc


def parse(text: str, name: str, *, path: Path | None = None) -> Scenario:
    """The scenario that a text says. name: for `Scenario.name`. path: where it came from, for messages.

    Raises:
        RequestError: it is no scenario; the message names the key.
    """
    return from_mapping(parse_yaml(text, name if path is None else str(path)), name, path=path)


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
    findings = given.texts("findings", [])
    known = features_of(format_)
    for feature in (f for f in features if f not in known):
        if feature in MEANINGS:
            raise RequestError(f"Invalid feature {feature!r} in {place}: {format_} tables do not have it")
        raise RequestError(f"Unknown feature {feature!r} in {place}: there are {', '.join(sorted(known))}")
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
        findings=tuple(findings),
        table=table,
        history=tuple(checked(dict, step, f"{place}, history step {i}") for i, step in enumerate(history, 1)),
        expectations=tuple(_expectation(e, f"{place}, expectation {i}") for i, e in enumerate(expectations, 1)),
    )


def _expectation(value: Any, place: str) -> Expectation:
    given = Arguments(value, place)
    expectation = Expectation(
        **{key.name: key.metadata["take"](given, key.name) for key in fields(Expectation) if given.has(key.name)}
    )
    given.finish()
    outcomes = (expectation.rows is not None) + (expectation.error is not None)
    if outcomes > 1 or (outcomes == 0 and expectation.open is None):
        raise RequestError(f"Invalid {place}: expected either rows or error (with `open`, at most one of them)")
    if expectation.open is not None and expectation.policy is not None:
        raise RequestError(f"Invalid {place}: a result that the specification leaves open is no policy")
    return expectation
