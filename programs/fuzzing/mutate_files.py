"""Whole files: one takes another's place, is there twice, or is gone."""

from random import Random


def swap(image: dict[str, bytes], file: str, rng: Random) -> dict[str, bytes | None]:
    """Two files of the same kind change places."""
    other = _similar_file(image, file, rng)
    return {file: image[other], other: image[file]}


def copy(image: dict[str, bytes], file: str, rng: Random) -> dict[str, bytes | None]:
    """Another file of the same kind stands in the place of this one; its own bytes are lost."""
    return {file: image[_similar_file(image, file, rng)]}


def remove(image: dict[str, bytes], file: str, rng: Random) -> dict[str, bytes | None]:
    """The file is gone, or empty."""
    return {file: None if rng.random() < 0.8 else b""}


def _similar_file(image: dict[str, bytes], file: str, rng: Random) -> str:
    others = sorted(name for name in image if name != file)
    alike = [name for name in others if name.rpartition(".")[2] == file.rpartition(".")[2]]
    return rng.choice(alike or others or [file])
