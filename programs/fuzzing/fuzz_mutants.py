"""Mutants: a file of a table and a change of it, derived only from a target, a seed, and a number."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random

import mutate_avro
import mutate_bytes
import mutate_checkpoint
import mutate_files
import mutate_http
import mutate_json
import mutate_listings
import mutate_messages
import mutate_parquet
import mutate_plans
import mutate_puffin
import mutate_roaring
from fuzz_subjects import Changes, Image, Subject, SubjectRead

ByBytes = Callable[[bytes, Random], bytes]
ByFiles = Callable[[Image, str, Random], Changes]

_FILES: tuple[ByFiles, ...] = (mutate_files.swap, mutate_files.copy, mutate_files.remove)
_AVRO: tuple[ByBytes, ...] = (
    mutate_avro.values,
    mutate_avro.values,
    mutate_avro.values,
    mutate_avro.frame,
    mutate_avro.header,
    mutate_avro.recoded,
)
_PARQUET: tuple[ByBytes, ...] = (mutate_parquet.footer, mutate_parquet.footer, mutate_parquet.page, mutate_parquet.body)
_BYTES: tuple[ByBytes, ...] = (mutate_messages.bits, mutate_messages.first_line)
_MESSAGES: tuple[ByBytes, ...] = (
    mutate_messages.numbers,
    mutate_messages.numbers,
    mutate_messages.messages,
    mutate_messages.rewritten,
    *_BYTES,
)
_HTTP: tuple[ByBytes, ...] = (
    mutate_http.body,
    mutate_http.body,
    mutate_http.body,
    mutate_http.versions,
    mutate_http.places,
    mutate_http.status,
    mutate_http.headers,
    mutate_http.chunks,
    mutate_bytes.damaged,
)
_PLAN: tuple[ByBytes | ByFiles, ...] = (
    mutate_plans.references,
    mutate_plans.references,
    mutate_plans.files,
    mutate_plans.exchanged,
    mutate_plans.exchanged,
    mutate_plans.partitions,
    mutate_plans.tasks,
    mutate_plans.locations,
    mutate_plans.locations,
    mutate_plans.credentials,
    mutate_plans.counts,
    mutate_plans.counts,
    mutate_plans.size,
    mutate_files.swap,
    mutate_http.body,
    *_HTTP,
)

TARGETS: dict[str, dict[str, tuple[ByBytes | ByFiles, ...]]] = {
    "json": {"document": (mutate_json.document,), "lines": (mutate_json.lines,)},
    "avro": {"avro": _AVRO},
    "parquet": {"parquet": _PARQUET, "checkpoint": _PARQUET},
    "checkpoint": {"checkpoint": (mutate_checkpoint.rewritten,)},
    "puffin": {"puffin": (mutate_puffin.footer, mutate_puffin.blobs, mutate_puffin.blobs)},
    "roaring": {
        "puffin": (mutate_puffin.blobs,),
        "vectors": (mutate_roaring.deletion_vectors,),
        "inline": (mutate_roaring.inline,),
    },
    "data": {"parquet": (mutate_checkpoint.rewritten,), "avro data": _AVRO, "orc": mutate_bytes.DAMAGE},
    "bytes": {},
    "files": {},
    "listings": {"listing": (mutate_listings.listing,), "look-ups": (mutate_listings.look_ups,)},
    "catalog": {"answer": _HTTP},
    "plans": {"plan": _PLAN, "answer": (*_HTTP, mutate_files.copy, mutate_plans.credentials)},
    "worker": {
        "rows": _MESSAGES,
        "error": (mutate_messages.error, mutate_messages.error, *_BYTES),
        "end": (mutate_messages.end,),
    },
}
"""The mutators by target and kind of file.

`bytes` and `files` take any file. The last four targets change answers about a table, see `fuzz_answers`.
"""

ROTATION = (
    "json",
    "avro",
    "bytes",
    "checkpoint",
    "json",
    "avro",
    "parquet",
    "roaring",
    "json",
    "avro",
    "files",
    "puffin",
    "data",
    "listings",
    "catalog",
    "plans",
    "worker",
)
"""The order in which groups of mutants use the targets."""

_LOTS = 20
"""The number of places in `order` for tables that a catalog manages, because answers about other tables contain little.
"""

GROUP = 32
"""The number of mutants of one table, so that the cost of making it is shared."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change of a file. `seed` determines its draws."""

    file: str
    mutate: ByBytes | ByFiles
    seed: int

    @property
    def mutator(self) -> str:
        """The name of the mutator."""
        return f"{self.mutate.__module__.removeprefix('mutate_')}.{self.mutate.__name__}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A table with one to three mutations, and the read."""

    target: str
    seed: int
    number: int
    subject: str
    read: SubjectRead
    mutations: tuple[Mutation, ...]

    @property
    def name(self) -> str:
        """The name from which the mutant can be drawn again, see `parsed`."""
        return f"{self.target}-{self.seed}-{self.number}"

    def words(self) -> str:
        """Return the mutations as text."""
        return "; ".join(f"{each.mutator} of {each.file}" for each in self.mutations)


def parsed(name: str) -> tuple[str, int, int]:
    """Return the target, seed, and number in a mutant's name."""
    target, seed, number = name.split("-")
    if target not in TARGETS:
        raise ValueError(f"no target {target}: there are {', '.join(TARGETS)}")
    return target, int(seed), int(number)


def order(target: str, seed: int, number: int, names: Sequence[str]) -> list[str]:
    """Return the possible subjects of a mutant's group. The first one that has a file for the target is used.

    Each subject has its own positions, so that a new subject changes only the mutants that become its own.
    """
    group = f"{target} {seed} {number // GROUP}"

    def place(name: str) -> bytes:
        lots = _LOTS if target == "catalog" and name.startswith("delta/catalog/") else 1
        return min(blake2b(f"{group} {name}{'+' * lot}".encode()).digest() for lot in range(lots))

    return sorted(names, key=place)


def fitting(target: str, subject: Subject, files: Sequence[str]) -> list[str]:
    """Return the files that the target's mutators can change."""
    kinds = TARGETS[target]
    return [file for file in files if not kinds or any(kind in kinds for kind in kinds_of(file, subject.image[file]))]


def draw(target: str, seed: int, number: int, subject: Subject, files: Sequence[str], read: SubjectRead) -> Mutant:
    """Draw the mutant with a number. `files` are the files that are read; at least one must fit the target."""
    rng = Random(f"{target} {seed} {number} mutant")
    mutations = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        fitted = fitting(target, subject, files)
        kind = rng.choice(sorted({kinds_of(file, subject.image[file])[:1] for file in fitted}))
        file = rng.choice([file for file in fitted if kinds_of(file, subject.image[file])[:1] == kind])
        target_mutators: dict[str, Sequence[ByBytes | ByFiles]] = {"bytes": mutate_bytes.DAMAGE, "files": _FILES}
        of_kinds = [m for each in kinds_of(file, subject.image[file]) for m in TARGETS[target].get(each, ())]
        mutations.append(Mutation(file, rng.choice(target_mutators.get(target, of_kinds)), rng.randrange(2**32)))
    return Mutant(target=target, seed=seed, number=number, subject=subject.name, read=read, mutations=tuple(mutations))


def draw_read(target: str, seed: int, number: int, subject: Subject) -> SubjectRead:
    """Draw the read of the mutant with a number.

    Half of the reads, and all reads in a worker, are reads of all rows.
    """
    if target == "worker":
        return subject.reads[0]
    return Random(f"{target} {seed} {number} read").choice((subject.reads[0], *subject.reads))


def applied(mutant: Mutant, image: Image) -> dict[str, bytes | None]:
    """Return the changes by the mutations. If a mutation does not fit, a bit is flipped instead."""
    changes: dict[str, bytes | None] = {}
    for mutation in mutant.mutations:
        now = {k: v for k, v in {**image, **changes}.items() if v is not None}
        if mutation.file in now:
            changes.update(_applied(mutation, now))
    return {name: data for name, data in changes.items() if data != image.get(name)}


def kinds_of(file: str, data: bytes) -> tuple[str, ...]:
    """Return the kinds of a table's file, by its path and content."""
    match file.partition(":"):  # for answers about a table
        case ("listings", ":", rest):
            return (rest if rest == "look-ups" else "listing",)
        case ("catalog", ":", _):
            return ("answer",)
        case ("plans", ":", rest):
            return ("plan",) if re.match(r"\d+ (POST (plan|tasks)|GET plan/)", rest) else ("answer",)
        case ("worker", ":", rest):
            return (rest,)
    in_log, in_metadata = file.startswith("_delta_log/"), file.startswith("metadata/")
    if data[:4] == b"PAR1":
        return ("checkpoint",) if in_log else ("parquet",)
    if data[:4] == b"Obj\x01":
        return ("avro",) if in_metadata else ("avro", "avro data")
    if data[:4] == b"PFA1":
        return ("puffin",)
    if data[:3] == b"ORC":
        return ("orc",)
    if in_log and file.endswith(".json"):
        return ("lines", "inline") if b'"storageType":"i"' in data else ("lines",)
    if in_log or in_metadata:
        return ("document",)
    return ("vectors",) if file.endswith(".bin") else ()


def _applied(mutation: Mutation, image: Image) -> Changes:
    rng, data = Random(mutation.seed), image[mutation.file]
    if mutation.mutate in _FILES:
        return mutation.mutate(image, mutation.file, rng)  # type: ignore[call-arg,arg-type,return-value]
    try:
        return {mutation.file: mutation.mutate(data, rng)}  # type: ignore[call-arg,arg-type,dict-item]
    except Exception:  # another mutation may have left a file of another kind, or one that cannot be parsed
        return {mutation.file: mutate_bytes.flip(data, rng)}
