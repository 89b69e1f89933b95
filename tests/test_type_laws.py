"""Laws of the types in the package: frozen classes, the names of type aliases, and recorded and physical paths."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import harness
from harness.storage.paths import PathMap
from harness.storage.stores import Storage

MODULES = [ast.parse(file.read_text(encoding="utf-8")) for file in Path(harness.__file__).parent.rglob("*.py")]
MUTABLE = frozenset({"list", "dict", "set", "bytearray", "defaultdict", "deque", "Counter", "OrderedDict"})

# Its base is a value and so frozen. Two plans are equal whatever was loaded for them.
STATEFUL = frozenset({"PlannedScan"})


def _is_frozen(node: ast.ClassDef) -> bool:
    keywords = [k for call in node.decorator_list if isinstance(call, ast.Call) for k in call.keywords]
    return any(k.arg == "frozen" and isinstance(k.value, ast.Constant) and k.value.value for k in keywords)


def _type_names(annotation: ast.expr) -> Iterator[str]:
    """The names of types in an annotation, but those of a callable's arguments."""
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value).endswith("Callable"):
        return
    if isinstance(annotation, ast.Name):
        yield annotation.id
    for part in ast.iter_child_nodes(annotation):
        if isinstance(part, ast.expr):
            yield from _type_names(part)


def test_a_frozen_class_has_no_mutable_field():
    mutable = {
        f"{node.name}.{ast.unparse(statement.target)}"
        for module in MODULES
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef) and _is_frozen(node) and node.name not in STATEFUL
        for statement in node.body
        if isinstance(statement, ast.AnnAssign) and MUTABLE.intersection(_type_names(statement.annotation))
    }
    assert mutable == set()


# Aliases that share a name, from before this law.
SHARED = frozenset("Batches Constant Counts Leaf Numbers Place Raw Run Step Use Writer".split())  # noqa: SIM905


def _aliases(module: ast.Module) -> Iterator[str]:
    """The type aliases of a module: annotated as such, or names with a subscripted type as the value."""
    for statement in module.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript()) if name.strip("_")[:1].isupper():
                if not name.isupper():
                    yield name


def test_the_name_of_a_type_alias_has_one_meaning():
    aliases = Counter(name.strip("_") for module in MODULES for name in _aliases(module))
    classes = {node.name for module in MODULES for node in ast.walk(module) if isinstance(node, ast.ClassDef)}
    shared = {name for name, times in aliases.items() if times > 1 or name in classes}
    assert shared <= SHARED


def test_only_physical_paths_are_opened():
    methods = {name: member for name, member in vars(Storage).items() if isinstance(member, FunctionType)}
    annotations = {
        name: inspect.get_annotations(method).get("path", inspect.get_annotations(method).get("directory"))
        for name, method in methods.items()
        if not name.startswith("_")
    }
    opening = {name: annotation for name, annotation in annotations.items() if annotation is not None}
    assert {"read", "end", "size", "status", "fault", "names", "entries"} <= opening.keys()
    assert set(opening.values()) == {"PhysicalPath"}
    assert inspect.get_annotations(PathMap.physical) == {"recorded": "RecordedPath", "return": "PhysicalPath"}
