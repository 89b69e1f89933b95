"""The worker process of `harness.suite.workers` for readers in Python: it serves one engine in its own interpreter.

It is run by its path, `python worker.py SCRIPT [ARGUMENT ...]`. Neither it nor SCRIPT needs to import harness. The
interpreter must have pyarrow, in any version, to transfer the rows. SCRIPT is a plain Python file with the functions
and constants below, or `MODULE:ATTRIBUTE`, an object with the members of `harness.suite.reader.Reader`:

    version() -> str                     raises ImportError if the engine is not installed
    read(table, columns, where)          rows: any object with `__arrow_c_stream__`, or the path of an Arrow IPC stream
                                         or file, which is copied
    count(table, where) -> int           optional; the number of rows, as the engine counts them
    changes(table, range, columns, where) optional; rows, as `read`
    capabilities() -> iterable | None    optional; the features that it claims, None: all
    NAME, HOMEPAGE                       optional; the name in reports, and an address
    OPTIONS                              optional; the options of a read that `read` takes as keyword arguments

`table` has the attributes of `harness.suite.reader.TableAt`: format, location, metadata_path, and at, which is None or
has kind and value. The option `union` is a list of such tables, each with its condition as `where`. `range` has the
attributes from_, to, from_inclusive, mode, and keys. An exception called
Unsupported or UnsupportedError (of any origin, for example SCRIPT itself), or NotImplementedError, means that the
engine does not support the read. Any other exception means that the engine refuses the table. ARGUMENTs are in
`sys.argv[1:]`. `harness.suite.protocol` defines the messages. Output that the engine prints goes to standard error.
"""

from __future__ import annotations

import difflib
import faulthandler
import importlib
import json
import os
import runpy
import shutil
import sys
from types import SimpleNamespace
from typing import Any

_DECLINES = {"Unsupported", "UnsupportedError", "NotImplementedError"}


def main() -> None:
    """Answer requests until standard input ends."""
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    faulthandler.enable()  # a crash prints its stack
    sys.argv = sys.argv[1:]
    engine: dict[str, object] = {}
    for line in requests:
        request = json.loads(line)
        answer = _hello(engine) if request["op"] == "hello" else {"id": request["id"], **_answer(engine, request)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _hello(engine: dict[str, Any]) -> dict[str, object]:
    try:
        importlib.import_module("pyarrow")
    except ImportError:
        return {"missing": "the interpreter lacks pyarrow, which transfers the rows; pip install pyarrow"}
    try:
        engine.update(_engine(sys.argv[0]))
        claimed = engine["capabilities"]() if "capabilities" in engine else None
        return {
            "protocol": 1,
            "name": engine.get("NAME"),
            "version": str(engine["version"]()),
            "language": "Python",
            "homepage": engine.get("HOMEPAGE", ""),
            "rows": "arrow",
            "ops": [operation for operation in ("read", "count", "changes") if engine.get(operation) is not None],
            "features": None if claimed is None else sorted(claimed),
            "filters": True,
            "options": list(engine.get("OPTIONS", ())),
        }
    except ImportError as error:
        return {"missing": str(error)}
    except Exception as error:
        return {"missing": f"{type(error).__name__}: {error}"}


def _engine(target: str) -> dict[str, Any]:
    """Return the definitions of the script, or an object's members under the names that a script would use."""
    module_name, colon, path = target.partition(":")
    if not colon or os.path.exists(target):
        return runpy.run_path(target, run_name="harness_worker")
    target_object: Any = importlib.import_module(module_name)
    for name in path.split("."):
        try:
            target_object = getattr(target_object, name)
        except AttributeError:
            near = difflib.get_close_matches(name, dir(target_object), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ImportError(f"{module_name} has no {path}{hint}") from None
    reader = target_object() if isinstance(target_object, type) else target_object
    operations = ("version", "capabilities", "read", "count", "changes")
    members = {name: getattr(reader, name) for name in operations if hasattr(reader, name)}
    return {**members, "NAME": reader.name, "OPTIONS": getattr(reader, "options", ())}


def _answer(engine: dict[str, Any], request: dict[str, Any]) -> dict[str, object]:
    table = _with_point(request["table"])
    names = request.get("columns")
    columns = None if names is None else tuple(names)
    try:
        if request["op"] == "count":
            return {"count": int(engine["count"](table, where=request["where"]))}
        if request["op"] == "changes":
            names = ("to", "from_inclusive", "mode", "keys")
            changes = SimpleNamespace(from_=request["from"], **{name: request[name] for name in names})
            rows = engine["changes"](table, changes, columns=columns, where=request["where"])
        else:
            options = dict(request.get("options", {}))
            if "union" in options:
                options["union"] = [_with_point({**request["table"], **part}) for part in options["union"]]
            rows = engine["read"](table, columns=columns, where=request["where"], **options)
        return {"rows": _write_rows(rows, request["output"])}
    except Exception as error:
        if _DECLINES.intersection(kind.__name__ for kind in type(error).__mro__):
            return {"unsupported": _message(error)}
        return {"error": type(error).__name__, "message": _message(error), "panic": False}
    except BaseException as error:  # a panic of an engine in Rust is not an Exception
        return {"error": type(error).__name__, "message": _message(error), "panic": True}


def _with_point(values: dict[str, Any]) -> SimpleNamespace:
    at = values["at"]
    return SimpleNamespace(**{**values, "at": None if at is None else SimpleNamespace(**at)})


def _message(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _write_rows(rows: Any, output: str) -> str:
    if isinstance(rows, (str, os.PathLike)):
        if not os.path.isfile(rows):
            raise ValueError("the path of the rows is not a regular file: " + repr(os.fspath(rows)))
        shutil.copyfile(rows, output)
        return output
    import pyarrow as pa

    whole = isinstance(rows, (pa.Table, pa.RecordBatch))  # very old versions of pyarrow do not accept streams
    reader = rows if whole else pa.RecordBatchReader.from_stream(rows)
    with pa.OSFile(output, "wb") as file, pa.ipc.new_stream(file, reader.schema) as writer:
        for batch in reader.to_batches() if isinstance(reader, pa.Table) else [reader] if whole else reader:
            writer.write_batch(batch)
    return output


if __name__ == "__main__":
    main()
