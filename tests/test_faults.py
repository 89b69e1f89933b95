"""Every planted fault can be applied: the code that it changes occurs exactly once in its file."""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_fault_can_be_planted(monkeypatch) -> None:
    spec = importlib.util.spec_from_file_location("faults", ROOT / "programs" / "faults" / "faults.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "faults", module)  # the dataclass decorator looks its module up
    spec.loader.exec_module(module)
    assert module.FAULTS
    moved = [
        f"{fault.file}: {fault.name}"
        for fault in module.FAULTS
        if (ROOT / "harness" / fault.file).read_text(encoding="utf-8").count(fault.before) != 1
    ]
    assert not moved, "the code has moved on: write the faults anew"
