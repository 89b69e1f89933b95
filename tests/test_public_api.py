"""The public API is closed: every type that it returns is public too, and has an entry in the reference.

The public names are those in `__all__` of `harness`, `harness.testing`, and `harness.types`, and those of
`harness.errors`.
"""

import ast
import importlib
import inspect
import re
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import harness
import harness.errors
import harness.testing
import harness.types

REFERENCE = Path(__file__).parents[1] / "docs/reference"
MODULES = (harness, harness.errors, harness.testing, harness.types)
SPECIAL = ("__call__", "__enter__", "__getitem__", "__iter__", "__next__")


class ModuleNames(dict[str, Any]):
    """The names of a module, including those that it imports only for type checkers."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__(vars(module))
        self.late: dict[str, tuple[str, str | None] | ast.expr] = {}
        for block in ast.parse(inspect.getsource(module)).body:
            if not (isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"):
                continue
            for node in block.body:
                match node:
                    case ast.ImportFrom():
                        self.late |= {each.asname or each.name: (str(node.module), each.name) for each in node.names}
                    case ast.Import():
                        self.late |= {each.asname or each.name: (each.name, None) for each in node.names}
                    case ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value):
                        self.late[name] = value

    def __missing__(self, name: str) -> Any:
        match self.late[name]:
            case ast.expr() as value:
                return eval(ast.unparse(value), {}, self)
            case (module, None):
                return importlib.import_module(module)
            case (module, found):
                imported = importlib.import_module(module)
                return names_of(imported)[found] if module.startswith("harness.") else getattr(imported, found)


NAMES: dict[str, ModuleNames] = {}


def names_of(module: ModuleType) -> ModuleNames:
    return NAMES.setdefault(module.__name__, ModuleNames(module))


def classes(annotation: Any, module: str) -> Iterator[type]:
    """Yield the classes of harness in an annotation, which is a value or its text."""
    if isinstance(annotation, typing.ForwardRef):
        module, annotation = annotation.__forward_module__ or module, annotation.__forward_arg__
    if isinstance(annotation, str):
        annotation = eval(annotation, {}, names_of(sys.modules[module]))
    origin = typing.get_origin(annotation)
    for each in (annotation, origin):
        if isinstance(each, type) and each.__module__.startswith("harness"):
            yield each
    if origin is not typing.Literal:
        for part in typing.get_args(annotation):
            for each in part if isinstance(part, list) else [part]:
                yield from classes(each, module)


def results(thing: object) -> Iterator[tuple[str, Any, str]]:
    """Yield the annotations of what a function returns, or of the methods, properties, and fields of a class, with
    their module.
    """
    if isinstance(thing, FunctionType):
        function = inspect.unwrap(thing)
        if "return" in function.__annotations__:
            yield f"{function.__name__}()", function.__annotations__["return"], function.__module__
        return
    assert isinstance(thing, type)
    for each in (each for each in thing.__mro__ if each.__module__.startswith("harness")):
        for name, annotation in inspect.get_annotations(each).items():
            if not name.startswith("_"):
                yield f"{each.__name__}.{name}", annotation, each.__module__
        for name, member in vars(each).items():
            if name.startswith("_") and name not in SPECIAL:
                continue
            plain = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            plain = getattr(plain, "func", plain)  # for cached properties
            if isinstance(plain, FunctionType):
                yield from ((f"{each.__name__}.{said}", *rest) for said, *rest in results(plain))


def public() -> dict[object, str]:
    """Return the public functions and classes with their names."""
    found: dict[object, str] = {}
    for module in MODULES:
        for name in getattr(module, "__all__", None) or vars(module):
            thing = getattr(module, name)
            is_of_errors = module is not harness.errors or isinstance(thing, type)
            if callable(thing) and is_of_errors and thing.__module__.startswith("harness") and name[0] != "_":
                found.setdefault(thing, f"{module.__name__}.{name}")
    return found


PUBLIC = public()


@pytest.mark.parametrize("thing", PUBLIC, ids=PUBLIC.get)
def test_return_types_of_public_functions_are_public(thing: object) -> None:
    lacking = {
        f"{place}: {each.__module__}.{each.__qualname__}"
        for place, annotation, module in results(thing)
        for each in classes(annotation, module)
        if each not in PUBLIC
    }
    assert lacking == set()


def test_every_public_name_has_an_entry_in_the_reference() -> None:
    documented: set[object] = set()
    for page in REFERENCE.glob("*.md"):
        for entry in re.findall(r"^::: (\S+)", page.read_text(encoding="utf-8"), re.MULTILINE):
            module, _, name = entry.rpartition(".")
            if entry in sys.modules:
                documented |= {getattr(sys.modules[entry], each) for each in sys.modules[entry].__all__}
            else:
                documented.add(getattr(importlib.import_module(module), name))
    errors = (REFERENCE / "errors.md").read_text(encoding="utf-8")
    lacking = {name for thing, name in PUBLIC.items() if thing not in documented}
    assert {name for name in lacking if f"`{name.rpartition('.')[2]}`" not in errors} == set()
