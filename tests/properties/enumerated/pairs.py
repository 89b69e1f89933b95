"""States as files: a data file and a delete file for each, all in one directory, and tables of any of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from states import DELETE_NUMBER, NUMBERS, TARGET, PairState
from tables import forked_table

from harness.suite.scenarios.iceberg.history import IcebergHistory
from harness.writing.iceberg.avro import AvroDocument
from harness.writing.iceberg.builder import IcebergFile, IcebergTable
from harness.writing.iceberg.files import PATH_ID

COLUMNS = {"r": "int", "k": "int", "m": "int", "o": "int", "p": "string", "q": "string"}
_TABLE = {"schema": COLUMNS, "format-version": 2, "metadata-names": "uuid"}
_SPECS = {"none": 0, "same": 1, "another": 2}
_BEGUN: tuple[Mapping[str, Any], ...] = (
    {"partition-spec": [["p", "identity"], ["q", "identity"]]},
    {"partition-spec": [["q", "identity"], ["p", "identity"]]},
)
_BOUNDS: Mapping[str, Mapping[str, Any]] = {
    "absent": {"statistics": []},
    "right": {},
    "inverted": {"set": {"lower_bounds": {"k": 10**6}, "upper_bounds": {"k": -(10**6)}}},
}
_INVERTED_PATHS = {"lower_bounds": b"z", "upper_bounds": b"a"}


@dataclass(frozen=True)
class PairFiles:
    """The data files and delete files of states, next to a table without a snapshot."""

    table: IcebergTable
    handles: Mapping[PairState, tuple[IcebergFile, IcebergFile]]

    def table_of(self, states: Sequence[PairState], version: int) -> str:
        """Return the address of a table with the files of these states."""
        table = forked_table(self.table)
        if version > 2:
            table.upgrade(version)
        table.document.doc["last-sequence-number"] = DELETE_NUMBER - 1
        data = {sequence: [self.handles[s][0] for s in states if s.sequence == sequence] for sequence in NUMBERS}
        table.commit(add=[*data.pop("inherited"), *(self.handles[s][1] for s in states)])
        for sequence, handles in data.items():
            if handles:
                table.commit(add=handles, sequence_number=NUMBERS[sequence])
        if version > 2:
            _turn_partitions_of_deletes(table)
        return str(table.metadata_path)


def write_pairs(states: Iterable[PairState], directory: Path) -> PairFiles:
    """Write the files of all these states."""
    history = IcebergHistory(directory, _TABLE)
    for operation in _BEGUN:
        history.apply(operation)
    handles = {}
    vectors: dict[PairState, IcebergFile] = {}
    for state in states:
        (data,) = history.writes.write(_data_file(state), str(state))
        if state.kind == "vector":
            vectors[state] = data
        else:
            (delete,) = history.writes.write(_delete_file(state), str(state))
            handles[state] = data, _complete(state, delete)
    found = history.table.write_deletion_vectors({data: [TARGET] for data in vectors.values()}) if vectors else ()
    for (state, data), vector in zip(vectors.items(), found, strict=True):
        handles[state] = data, _complete(state, vector)
    return PairFiles(history.table, handles)


def _data_file(state: PairState) -> dict[str, Any]:
    p, q = state.data_partition
    rows = [list(row.values()) for row in state.rows()]
    place = {"spec-id": _SPECS["same"], "partition": {"p": p, "q": q}}
    return {"data": f"d{state.number}", "rows": rows, **place, **_BOUNDS[state.data_bounds]}


def _delete_file(state: PairState) -> dict[str, Any]:
    label, target = f"x{state.number}", f"d{state.number}"
    place = {"label": label, "spec-id": _SPECS[state.spec], "partition": _partition(state)}
    match state.kind:
        case "vector":
            return {"deletion-vectors": {target: [TARGET]}, "label": label}
        case "position":
            bounds = _BOUNDS["absent" if state.delete_bounds == "absent" else "right"]
            return {"position-deletes": [[target, TARGET]], **place, **bounds}
        case "equality":
            keys = {"equality-deletes": ["k"], "rows": [[state.delete_key[0]]]}
        case _:
            keys = {"equality-deletes": ["k", "m"], "rows": [list(state.delete_key)]}
    return {**keys, **place, **_BOUNDS[state.delete_bounds]}


def _partition(state: PairState) -> dict[str, Any]:
    return {} if state.spec == "none" else dict(zip("pq", state.delete_partition, strict=True))


def _turn_partitions_of_deletes(table: IcebergTable) -> None:
    """Rewrite the partition fields of deletes in another order. Readers must match the fields by id."""
    for path, manifest in table.manifests().items():
        if manifest.records[0]["data_file"]["content"] != 0:
            table.edit_manifest(path, _turn_partitions)


def _turn_partitions(manifest: AvroDocument) -> None:
    data_file = next(f for f in manifest.schema["fields"] if f["name"] == "data_file")["type"]
    next(f for f in data_file["fields"] if f["name"] == "partition")["type"]["fields"].reverse()


def _complete(state: PairState, delete: IcebergFile) -> IcebergFile:
    """Return the entry with the parts that the writer of the file cannot set."""
    if state.kind == "vector":
        entry = {**delete.data_file, "partition": _partition(state)}
        return replace(delete, spec_id=_SPECS[state.spec], data_file=entry)
    if state.kind == "position" and state.delete_bounds == "inverted":
        for name, bound in _INVERTED_PATHS.items():
            delete.data_file[name] = [{"key": PATH_ID, "value": bound}]
    return delete
