"""Further operations of Delta histories: files that are added again, with or without their deletion vectors."""

from collections.abc import Mapping
from typing import Final

from hypothesis import strategies as st

from drawn.models.delta import DeltaModel
from drawn.strategies.columns import Draw, HistoryOperation, Operation


def add_again(draw: Draw, model: DeltaModel) -> Operation:
    """Draw a removed file, which is restored with the deletion vector that it had last."""
    return {"commit": {"add": [draw(st.sampled_from(_removed(model)))], "operation": "RESTORE"}}


def restore_rows(draw: Draw, model: DeltaModel) -> Operation:
    """Draw a file with a deletion vector, which is restored to its state without a vector."""
    label = draw(st.sampled_from(_marked(model)))
    added = {"file": label, "unset": ["deletionVector"]}
    return {"commit": {"remove": [label], "add": [added], "operation": "RESTORE"}}


def add_while_live(draw: Draw, model: DeltaModel) -> Operation:
    """Draw a live file, of which only the recorded facts change."""
    label = draw(st.sampled_from(sorted(model.current.files)))
    return {"commit": {"add": [label], "operation": "COMPUTE STATS", "data-change": False}}


def _removed(model: DeltaModel) -> list[str]:
    return sorted(model.labels - model.current.files.keys() - model.vacuumed)


def _marked(model: DeltaModel) -> list[str]:
    return sorted(label for label, live in model.current.files.items() if live.dead is not None)


MAINTENANCE: Final[Mapping[str, HistoryOperation]] = {
    "add-again": HistoryOperation(lambda model: bool(_removed(model)), add_again),
    "restore-rows": HistoryOperation(lambda model: bool(_marked(model)), restore_rows),
    "add-while-live": HistoryOperation(lambda model: bool(model.current.files), add_while_live),
}
