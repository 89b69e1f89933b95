"""Deletion vectors of a slice: files of them copied under names that descriptors spell, or written anew."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from harness.delta.actions import DeletionVectorDescriptor
from harness.slices.delta.actions import Json
from harness.slices.delta.contents import Contents
from harness.slices.names import Names
from harness.slices.place import Place, writing
from harness.slices.rewriting import Settled, ordinals
from harness.writing.delta.vectors import write_vectors, z85


def vector_target(file: str) -> str:
    """What a file of vectors, by its physical path, is called in the slice; always the same for one file."""
    return f"deletion_vector_{_id(file)}.bin"


def copied_vector(vector: DeletionVectorDescriptor, file: str | None) -> Json:
    """The descriptor of a vector whose file was copied; `file`: its physical path, None for one in the log."""
    found: Json = {"storageType": "i", "pathOrInlineDv": vector.path_or_inline}
    if file is not None:
        found = {"storageType": "u", "pathOrInlineDv": z85(_id(file).bytes)}
        if vector.offset is not None:
            found["offset"] = vector.offset
    return {**found, "sizeInBytes": vector.size, "cardinality": vector.cardinality}


def _id(file: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, file)


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors of files that lost rows, by the physical path of the data file and the id of the old vector."""

    known: Mapping[tuple[str, str], Json]

    @staticmethod
    def written(
        contents: Contents, settled: Mapping[str, Settled], place: Place, names: Names, *, compact: bool
    ) -> Vectors:
        """Writes those that delete a row of the slice, into one file. compact: none of them does."""
        if compact:
            return Vectors({})
        vectors = {
            (row["physical"], vector.unique_id)
            for row in contents.adds()
            if (vector := DeletionVectorDescriptor.of(row)) is not None
        }
        dead = {}
        for version, plan in contents.plans.items():
            places = ordinals(plan)
            here = {row[0]: row for row in contents.live_vectors(version) if row in vectors}
            wanted = [places[path] for path in here if path in places]
            loaded = plan.load_positions(wanted)
            for path, key in here.items():
                positions = loaded.get(places[path]) if path in places else None
                if positions and path in settled and (moved := settled[path].moved(positions)):
                    dead[key] = moved
        if not dead:
            return Vectors({})
        with writing(place.directory):
            name = _id(f"vectors of a slice {names.refreshed}")
            described = write_vectors(place.directory, name, 0, dead.values())
        return Vectors(dict(zip(dead, described, strict=True)))

    def of(self, path: str, vector: DeletionVectorDescriptor) -> Json | None:
        """The descriptor of the data file's vector in the slice; None: it deletes none of its rows."""
        return self.known.get((path, vector.unique_id))
