"""Mutators of whole files: a file is replaced by another, repeated, or removed."""

from random import Random


def swap(image: dict[str, bytes], file: str, rng: Random) -> dict[str, bytes | None]:
    """Swap two files of the same kind."""
    other = _similar_file(image, file, rng)
    return {file: image[other], other: image[file]}


def copy(image: dict[str, bytes], file: str, rng: Random) -> dict[str, bytes | None]:
    """Replace the file with another file of the same kind."""
    return {file: image[_similar_file(image, file, rng)]}


def remove(image: dict[str, bytes], file: str, rng: Random) -> dict[str, bytes | None]:
    """Remove or empty the file."""
    return {file: None if rng.random() < 0.8 else b""}


def _similar_file(image: dict[str, bytes], file: str, rng: Random) -> str:
    others = sorted(name for name in image if name != file)
    candidates = [name for name in others if name.rpartition(".")[2] == file.rpartition(".")[2]]
    return rng.choice(candidates or others or [file])
