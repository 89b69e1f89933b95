"""Scenario files: found, read and written.

YAML is read strictly, in the core types of YAML 1.2: `yes`, `no`, `on` and dates are text; a key that stands twice is
an error; anchors, tags and merge keys are not read. A key that nobody knows, a value of the wrong type, or a feature
that does not exist is a RequestError that names the file and the key. Operations are checked when they run.
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from harness import errors
from harness.errors import HarnessError, RequestError
from harness.testing.scenarios.arguments import Arguments, checked
from harness.testing.scenarios.features import FEATURES, features_of
from harness.testing.scenarios.model import Expectation, ExpectedError, Scenario, Selector, SelectorKind

WIDTH = 110
"""Characters up to which a list or mapping is written on one line."""
_MOST_DIGITS = 1_000
_DEEPEST = 200
"""Lists and mappings in each other. libyaml takes a piece of the stack for each, and PyYAML of Python's."""

_INDENT = re.compile(r"^[ ?:-]*", re.MULTILINE)
_NULL = re.compile(r"(?:~|null|Null|NULL|)")
_BOOL = re.compile(r"(?:true|True|TRUE|false|False|FALSE)")
_INT = re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)")
_FLOAT = re.compile(
    r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))"
)
_PLAIN = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_ ./()+-]*[A-Za-z0-9_./()+-])?")
_SPECIAL = {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def parse_yaml(text: str, place: str) -> Any:
    """The one document in a text, as mappings, lists and scalars.

    Raises:
        RequestError: it is no YAML, or uses what scenarios do not use; the message names the line.
    """
    try:
        if _may_be_deep(text):
            _check_depth(text)
        return yaml.load(text, Loader=_Loader)  # a SafeLoader, with other scalars
    except yaml.YAMLError as exc:
        raise RequestError(f"Cannot read {place}: {' '.join(str(exc).split())}") from exc


def write(value: Any) -> str:
    """The text of a document, for `parse_yaml`: blocks at the outside, short parts on one line.

    Raises:
        RequestError: a value is none of null, bool, int, float, str, list and mapping.
    """
    return "".join(f"{line}\n" for line in _block(value))


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


def _may_be_deep(text: str) -> bool:
    """Tells whether a look pays: brackets open at most so often, and blocks begin at most twice in a column."""
    brackets = text.count("[") + text.count("{")
    return brackets + 2 * max(map(len, _INDENT.findall(text))) >= _DEEPEST


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
    text = loader.construct_scalar(node)
    special = _SPECIAL.get(text.lower().replace(".", "", 1)) if text[-1].isalpha() else None
    return float(text) if special is None else special


for _tag, _pattern, _first in (
    ("null", _NULL, ["~", "n", "N", ""]),
    ("bool", _BOOL, list("tTfF")),
    ("int", _INT, list("-+0123456789")),
    ("float", _FLOAT, list("-+0123456789.")),
):
    _anchored = re.compile(rf"{_pattern.pattern}\Z")
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _anchored, _first)
_Loader.add_constructor("tag:yaml.org,2002:int", _int)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)


def _block(value: Any) -> Iterator[str]:
    match value:
        case Mapping() if value:
            for key, item in value.items():
                yield from _entry(f"{_text(key)}:", item)
        case list() | tuple() if value:
            for item in value:
                yield from _item(item)
        case _:
            yield _flow(value)


def _entry(head: str, item: Any) -> Iterator[str]:
    line = f"{head} {_flow(item)}"
    if _is_short(item, line):
        yield line
        return
    yield head
    yield from (f"  {below}" for below in _block(item))


def _item(item: Any) -> Iterator[str]:
    line = f"- {_flow(item)}"
    if _is_short(item, line) and not (isinstance(item, Mapping) and len(item) == 1):
        yield line
        return
    for number, below in enumerate(_block(item)):
        yield f"{'- ' if number == 0 else '  '}{below}"


def _is_short(item: Any, line: str) -> bool:
    return not item or not isinstance(item, list | tuple | Mapping) or (len(line) <= WIDTH and not _has_rows(item))


def _has_rows(item: Any) -> bool:
    """Tells whether a list holds several lists or mappings, at any level: they stand one below the other."""
    match item:
        case list() | tuple():
            nested = [v for v in item if isinstance(v, list | tuple | Mapping)]
            return len(nested) > 1 or any(map(_has_rows, nested))
        case Mapping():
            return any(map(_has_rows, item.values()))
        case _:
            return False


def _flow(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _float_text(value)
        case str():
            return _text(value)
        case Mapping():
            return "{" + ", ".join(f"{_text(k)}: {_flow(v)}" for k, v in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_flow, value)) + "]"
        case _:
            raise RequestError(
                f"Cannot write {value!r} into a scenario: give null, bool, number, text, list or mapping"
            )


def _float_text(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    return repr(value)


def _text(text: Any) -> str:
    if not isinstance(text, str):
        return _flow(text)
    reads_otherwise = any(p.fullmatch(text) for p in (_NULL, _BOOL, _INT, _FLOAT))
    if _PLAIN.fullmatch(text) and not reads_otherwise:
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if " " <= char <= "~" or (char.isprintable() and "\xa0" < char < "\ufeff"):
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_SELECTORS: dict[SelectorKind, tuple[type, ...]] = {
    "snapshot": (str, int),
    "ref": (str,),
    "version": (int,),
    "timestamp": (int, str),
    "changes": (list,),
}


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
    """The text of a scenario, for `parse`: short parts on one line, rows one below the other."""
    document: dict[str, Any] = {
        "title": scenario.title,
        "format": scenario.format,
        "clauses": list(scenario.clauses),
        "features": list(scenario.features),
        "table": scenario.table,
        "history": list(scenario.history),
        "expect": [_dumped(e) for e in scenario.expectations],
    }
    return write(document)


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
