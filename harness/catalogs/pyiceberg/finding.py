"""A FileIO for catalogs that read a table's metadata when they are asked where it is: it tells, and reads nothing.

PyIceberg's catalogs but the REST one know a metadata file by its location alone, and parse it before they answer. That
would read it twice, need a second client of the store, and refuse tables that PyIceberg does not know and harness does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn


class Found(Exception):  # an answer, no error
    """The metadata file that a catalog is about to read."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location


class Finding:
    """Raises `Found` for the first file that is to be read, and never writes. It has the methods of a `FileIO`."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties = properties

    def new_input(self, location: str) -> NoReturn:
        """Tells the location."""
        raise Found(location)

    def new_output(self, location: str) -> NoReturn:
        """Never: a catalog is only asked."""
        raise PermissionError(location)

    def delete(self, location: object) -> NoReturn:
        """Never: a catalog is only asked."""
        raise PermissionError(location)
