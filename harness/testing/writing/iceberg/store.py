"""Where a table that is being built lives: its directory, its recorded location, and the metadata files in it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

from harness.testing.writing.iceberg.avro import AvroDocument
from harness.testing.writing.places import FIRST_TIMESTAMP_MS, counted_uuid, inside

MetadataNames: TypeAlias = Literal["version", "uuid"]
MetadataCodec: TypeAlias = Literal["none", "gzip"]


class TableStore:
    """Writes metadata files, manifest lists and manifests under counted names, and keeps the Avro ones in memory.

    directory: on disk. location: the prefix of recorded paths. metadata_path: the newest metadata file, on disk.
    within: the directory that all files must be in; None: they may be anywhere.
    """

    def __init__(self, directory: Path, location: str, names: MetadataNames, codec: MetadataCodec) -> None:
        self.directory = directory
        self.location = location
        self.metadata_path = directory
        self.within: Path | None = None
        self._names = names
        self._codec = codec
        self._avro: dict[str, AvroDocument] = {}
        self._versions = 0

    def file_of(self, recorded: str) -> Path:
        """Where a file with this recorded path is on disk.

        Raises:
            RequestError: not where files may be.
        """
        prefix = f"{self.location}/"
        file = self.directory / recorded.removeprefix(prefix) if recorded.startswith(prefix) else Path(recorded)
        return file if self.within is None else inside(self.within, file)

    def recorded(self, path: str) -> str:
        """The recorded path of a file with this path, relative to the location or absolute."""
        return path if Path(path).is_absolute() else f"{self.location}/{path}"

    def now_ms(self) -> int:
        """The time of the next metadata file: one second after the one before."""
        return FIRST_TIMESTAMP_MS + 1000 * self._versions

    def load(self, recorded: str) -> AvroDocument:
        """A manifest or manifest list that was stored, by its recorded path."""
        return self._avro[recorded]

    def store_manifest(self, document: AvroDocument) -> tuple[str, int]:
        """Write a manifest; its recorded path and length."""
        return self._store(document, f"{counted_uuid(f'manifest {len(self._avro)}')}-m0.avro")

    def store_list(self, document: AvroDocument, snapshot_id: int) -> str:
        """Write a manifest list; its recorded path."""
        return self._store(document, f"snap-{snapshot_id}-1-{counted_uuid(f'list {len(self._avro)}')}.avro")[0]

    def edit(self, recorded: str, change: Callable[[AvroDocument], Any]) -> None:
        """Change a stored manifest or manifest list in place and write its file again."""
        change(self._avro[recorded])
        self._avro[recorded].write(self.file_of(recorded))

    def save_version(self, doc: dict[str, Any]) -> None:
        """Write the next metadata file, with the one before in its log, and move the version hint."""
        if self._versions:
            previous = self.recorded(f"metadata/{self.metadata_path.name}")
            entry = {"timestamp-ms": doc["last-updated-ms"], "metadata-file": previous}
            doc.setdefault("metadata-log", []).append(entry)
        # Iceberg in Java refuses a log that goes on after the table was updated last.
        times = (entry["timestamp-ms"] for entry in doc.get("snapshot-log", ()))
        doc["last-updated-ms"] = max((self.now_ms(), *times))
        number = f"{self._versions:05d}-{counted_uuid(f'metadata {self._versions}')}"
        self._versions += 1
        stem = number if self._names == "uuid" else f"v{self._versions}"
        ending = ".gz.metadata.json" if self._codec == "gzip" else ".metadata.json"
        self.metadata_path = self.directory / "metadata" / f"{stem}{ending}"
        self.rewrite_version(doc)
        if self._names == "version":
            (self.directory / "metadata" / "version-hint.text").write_text(str(self._versions), encoding="utf-8")

    def rewrite_version(self, doc: dict[str, Any]) -> None:
        """Write the document to the newest metadata file."""
        self.metadata_path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps(doc, indent=1).encode()
        self.metadata_path.write_bytes(gzip.compress(content, mtime=0) if self._codec == "gzip" else content)

    def _store(self, document: AvroDocument, name: str) -> tuple[str, int]:
        path = self.recorded(f"metadata/{name}")
        self._avro[path] = document
        return path, document.write(self.file_of(path))
