"""A faster `dataclass`: like the standard library's, but its methods are created later or shared between classes.

The standard library compiles six methods for each frozen class at import time, which takes 0.1 s for the 220 classes
that a first query needs. Here, `__init__` is compiled when a class is first called or inspected, and the other methods
are compiled once for all classes.

Use it in modules that a first query imports. It does not support `InitVar`, `KW_ONLY`, or dataclasses as base classes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool = False, slots: bool = False, kw_only: bool = False, eq: bool = True) -> Any:
        """Return a decorator with the same result as `dataclasses.dataclass`.

        Values are compared like tuples, as in the standard library before Python 3.13: a NaN object equals itself.
        """
        return partial(_build, frozen=frozen, slots=slots, kw_only=kw_only, eq=eq)


__all__ = ["dataclass"]


def _build(cls: type[T], *, frozen: bool, slots: bool, kw_only: bool, eq: bool) -> type[T]:
    defined = set(vars(cls)) - ({"__hash__"} if vars(cls).get("__hash__") is None else set())
    # otherwise it is built from the signature, which would compile `__init__`
    cls.__doc__ = cls.__doc__ or cls.__name__
    cls_ = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    parameters: Any = vars(cls_)["__dataclass_params__"]
    parameters.init = parameters.repr = True
    parameters.eq, parameters.frozen = eq, frozen
    methods: dict[str, Any] = {"__init__": _Init(cls_, frozen), "__repr__": _repr}
    fields = dataclasses.fields(cls_)  # type: ignore[arg-type]
    if eq:
        methods["__eq__"] = _equal([f.name for f in fields if f.compare])
        hashed = [f.name for f in fields if (f.compare if f.hash is None else f.hash)]
        methods["__hash__"] = _hash(hashed) if frozen else None
    if frozen:
        methods["__setattr__"], methods["__delattr__"] = _frozen(cls_, frozenset(f.name for f in fields))
        if slots:
            methods |= {"__getstate__": _state, "__setstate__": _restore}
    for name, method in methods.items():
        if name not in defined:
            setattr(cls_, name, method)
    return cls_


class _Init:
    """A placeholder for a class's `__init__` that compiles the real one on first access and replaces itself."""

    def __init__(self, cls: type, frozen: bool) -> None:
        self.cls, self.frozen = cls, frozen

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        compiled = _compiled_init(self.cls, frozen=self.frozen)
        self.cls.__init__ = compiled  # type: ignore[misc]
        return compiled.__get__(instance, owner)


def _compiled_init(cls: type, *, frozen: bool) -> FunctionType:
    fields = dataclasses.fields(cls)
    namespace: dict[str, Any] = {"_set": object.__setattr__, "_made": _NEW}
    parameters: dict[str, list[str]] = {"": [], "*": []}
    body = []
    for field in fields:
        name = value = field.name
        if field.default_factory is not dataclasses.MISSING:
            namespace[f"_new_{name}"] = field.default_factory
            value = f"_new_{name}() if {name} is _made else {name}" if field.init else f"_new_{name}()"
            default = "=_made"
        elif field.default is not dataclasses.MISSING:
            namespace[f"_default_{name}"] = field.default
            default = f"=_default_{name}"
            value = name if field.init else f"_default_{name}"
        elif field.init:
            default = ""
        else:
            continue
        if field.init:
            parameters["*" if field.kw_only else ""].append(name + default)
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    arguments = ["self", *parameters[""], *(["*", *parameters["*"]] if parameters["*"] else [])]
    text = f"def __init__({', '.join(arguments)}):\n " + "\n ".join(body or ["pass"])
    # Compile and execute in two steps. If Python executes text directly, it remembers a Ctrl-C and later ends by the
    # signal.
    exec(compile(text, f"<dataclass {cls.__qualname__}>", "exec"), namespace)
    init: FunctionType = namespace["__init__"]
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    init.__annotations__ = {f.name: f.type for f in fields if f.init} | {"return": None}
    return init


class _New:
    def __repr__(self) -> str:
        return "<factory>"


_NEW = _New()
"""The default of arguments whose value is created for each object."""


@recursive_repr()
def _repr(self: Any) -> str:
    values = [f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr]
    return f"{type(self).__qualname__}({', '.join(values)})"


def _values(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that gets values of an object as a tuple, where even a NaN object equals itself."""
    if len(names) > 1:
        return attrgetter(*names)
    return (lambda self: (getattr(self, names[0]),)) if names else lambda self: ()


def _equal(names: Sequence[str]) -> Callable[[Any, Any], bool]:
    values = _values(names)

    def __eq__(self: Any, other: Any) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(names: Sequence[str]) -> Callable[[Any], int]:
    values = _values(names)

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _frozen(cls: type[Any], names: frozenset[str]) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return `__setattr__` and `__delattr__` for a frozen class. Subclasses may have further attributes."""

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__


def _state(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
