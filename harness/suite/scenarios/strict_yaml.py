"""A strict YAML parser for scenario files, based on PyYAML, which only the extra `suite` installs.

Values have the core types of YAML 1.2: `yes`, `no`, `on` and dates are text. Repeated keys are an error. Anchors, tags,
and merge keys are not supported.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from harness.errors import RequestError

_MAX_DIGITS = 1_000
_MAX_DEPTH = 200
"""The deepest nesting of lists and mappings. libyaml uses the stack for each level, and so does PyYAML in Python."""

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
"""The scalars of YAML's core schema by tag, with the characters that they begin with."""


def parse(text: str, place: str) -> Any:
    """Return the only document in a text, as mappings, lists and scalars.

    Raises:
        RequestError: The text is not YAML, or uses a feature that scenarios do not use. The message names the line.
    """
    try:
        # This is an upper bound of the depth: brackets open at most that often, and blocks begin at most twice per
        # column.
        if text.count("[") + text.count("{") + 2 * max(map(len, _INDENT.findall(text))) >= _MAX_DEPTH:
            _check_depth(text)
        return yaml.load(text, Loader=_Loader)  # _Loader is a SafeLoader with other scalars
    except yaml.YAMLError as exc:
        raise RequestError(f"Cannot read {place}: {' '.join(str(exc).split())}") from exc


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A SafeLoader with the scalars of YAML 1.2's core schema, and without aliases and repeated keys.

    It uses libyaml if PyYAML includes it, which is ten times as fast.
    """

    yaml_implicit_resolvers: dict[str, object] = {}  # noqa: RUF012  # PyYAML's own way to hold them

    def get_single_node(self) -> object:
        node = super().get_single_node()
        _check_each_stands_once(node)
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, object]:
        keys = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, list | dict):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a scalar", key_node.start_mark)
            if key in keys:
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} occurs twice", key_node.start_mark)
            keys.add(key)
        mapping: dict[Any, object] = super().construct_mapping(node, deep=True)
        return mapping

    def flatten_mapping(self, node: object) -> None:
        """Treat `<<` as an ordinary key, as YAML 1.2 does."""


def _check_depth(text: str) -> None:
    depth = 0
    # not with libyaml, which may fail on brackets before it reports them
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_DEPTH:
            mark: Any = event.start_mark
            raise yaml.composer.ComposerError(None, None, "lists and mappings are nested too deeply", mark)


def _check_each_stands_once(root: Any) -> None:
    """Raise an error for aliases, which are the node of their anchor a second time."""
    visited: set[int] = set()
    waiting = [] if root is None else [root]
    while waiting:
        node = waiting.pop()
        if id(node) in visited:
            raise yaml.composer.ComposerError(None, None, "aliases are not supported", node.start_mark)
        visited.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)
        elif isinstance(node, yaml.MappingNode):
            waiting.extend(part for pair in node.value for part in pair)


def _int(loader: _Loader, node: Any) -> int:
    text = loader.construct_scalar(node)
    if len(text) > _MAX_DIGITS:
        raise yaml.constructor.ConstructorError(None, None, f"a number has {len(text):,} digits", node.start_mark)
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    return int(text[2:] if base != 10 else text, base)


def _float(loader: _Loader, node: object) -> float:
    text = loader.construct_scalar(node).lower()
    return float(text.replace(".", "", 1) if text[-1].isalpha() else text)  # PyYAML's NaN has a sign


for _tag, (_pattern, _first) in _CORE.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"{_pattern}\Z"), _first)
_Loader.add_constructor("tag:yaml.org,2002:int", _int)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)
