"""`harness.storage.records.dataclass` compared with the standard library's, on classes made twice from one text."""

import copy
import dataclasses
import inspect
import math
import pickle
import sys
from typing import Any

import pytest

from harness.storage import records

_TEXT = """
from __future__ import annotations
from dataclasses import field

@dataclass(frozen=True, slots=True)
class Point:
    '''A point.'''
    x: float
    y: float = 2.0
    seen: list[int] = field(default_factory=list, compare=False)
    note: str = field(default="n", repr=False, hash=False)

@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    '''Has what is not given.'''
    name: str
    kind: str = field(default="k", init=False)
    made: dict[str, int] = field(init=False, default_factory=dict)
    double: str = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "double", self.name * 2)

@dataclass(frozen=True)
class Open:
    '''Has a dictionary.'''
    value: int

@dataclass(slots=True)
class Changing:
    '''Is changed.'''
    items: list[object]
    count: int = 0

@dataclass(frozen=True, slots=True, eq=False)
class Itself:
    '''Equals itself only.'''
    value: int

@dataclass(frozen=True, slots=True)
class Own:
    '''Says itself what is equal.'''
    value: int

    def __eq__(self, other):
        return isinstance(other, Own)

    def __hash__(self):
        return 7

    def __repr__(self):
        return "own"

@dataclass(frozen=True, slots=True)
class Nothing:
    '''Holds nothing.'''
"""


def _module(name: str, decorator: Any) -> Any:
    module = type(sys)(name)
    module.__dict__["dataclass"] = decorator
    sys.modules[name] = module  # pickle looks classes up there
    exec(compile(_TEXT, name, "exec", dont_inherit=True), vars(module))
    return module


@pytest.fixture(scope="module")
def both() -> Any:
    made = _module("made_by_ours", records.dataclass), _module("made_by_theirs", dataclasses.dataclass)
    yield made
    del sys.modules["made_by_ours"], sys.modules["made_by_theirs"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda m: repr(m.Point(1.0)),
        lambda m: repr([m.Named(name="a"), m.Open(1), m.Changing([1]), m.Own(1), m.Nothing()]),
        lambda m: m.Point(1.0) == m.Point(1.0, seen=[3]),
        lambda m: m.Point(1.0) == m.Point(1.0, note="other"),
        lambda m: m.Open(1) == m.Itself(1),
        lambda m: m.Nothing() == m.Nothing(),
        lambda m: m.Itself(1) == m.Itself(1),
        lambda m: m.Own(1) == m.Own(2),
        lambda m: len({m.Point(1.0), m.Point(1.0, seen=[1]), m.Point(1.0, note="x"), m.Open(1), m.Open(1), m.Own(1)}),
        lambda m: hash(m.Changing([])),
        lambda m: m.Point(),
        lambda m: m.Point(1.0, 2.0, [], "", 5),
        lambda m: m.Point(1.0, z=3),
        lambda m: m.Named("a"),
        lambda m: m.Named(name="a", kind="b"),
        lambda m: m.Named(name="a").double,
        lambda m: m.Point(1.0).seen is m.Point(1.0).seen,
        lambda m: setattr(m.Point(1.0), "x", 2.0),
        lambda m: delattr(m.Point(1.0), "x"),
        lambda m: setattr(m.Open(1), "z", 2.0),
        lambda m: setattr(type("Wider", (m.Open,), {})(1), "z", 2.0),
        lambda m: setattr(type("Wider", (m.Open,), {})(1), "value", 2),
        lambda m: setattr(m.Changing([]), "z", 2.0),
        lambda m: repr(dataclasses.replace(m.Point(1.0, note="kept"), x=5.0)),
        lambda m: dataclasses.replace(m.Named(name="a"), kind="b"),
        lambda m: dataclasses.asdict(m.Point(1.0)),
        lambda m: [(f.name, f.type, f.repr, f.compare, f.kw_only) for f in dataclasses.fields(m.Point)],
        lambda m: [m.Point.__match_args__, m.Named.__match_args__, m.Point.__slots__, m.Point.__doc__],
        lambda m: hasattr(m.Point(1.0), "__dict__"),
        lambda m: str(inspect.signature(m.Point)),
        lambda m: str(inspect.signature(m.Named)),
        lambda m: m.Point.__init__.__annotations__,
        lambda m: m.Point.__init__.__qualname__,
        lambda m: [
            repr(pickle.loads(pickle.dumps(m.Point(1.0, note="p")))),
            pickle.loads(pickle.dumps(m.Open(1))).value,
        ],
        lambda m: repr([copy.copy(m.Named(name="c")), copy.deepcopy(m.Changing([m.Point(1.0)]))]),
        lambda m: [changing := m.Changing([]), changing.items.append(changing), repr(changing)][2],
        lambda m: dataclasses.dataclass(frozen=True)(type("Wider", (m.Point,), {"__annotations__": {}}))(1.0).y,
        lambda m: dataclasses.dataclass(type("Wider", (m.Point,), {"__annotations__": {}})),
    ],
)
def test_classes_behave_like_those_of_the_standard_library(both: Any, ask: Any) -> None:
    said = []
    for module in both:
        try:
            said.append(ask(module))
        except (TypeError, AttributeError, ValueError) as error:
            said.append((type(error), str(error)))
    assert said[0] == said[1]


def test_one_nan_equals_itself_on_every_python(both: Any) -> None:
    ours, _ = both
    for make in (ours.Point, ours.Open):
        assert make(math.nan) == make(math.nan)
        assert make(math.nan) != make(float("nan"))
