"""The calls that plan scans on the server of a REST catalog, sent by PyIceberg's client.

PyIceberg has its own functions for some of these calls, but they do not poll, cancel, or use the credentials of a plan.
They also parse the answers, which `harness.metadata.iceberg.server` does here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from harness.errors import StorageError
from harness.metadata.catalogs.catalog import Name, TableServer, name_text
from harness.metadata.catalogs.pyiceberg import PyIcebergCatalog, translate_errors
from harness.metadata.catalogs.pyiceberg_answers import Answer as TableAnswer
from harness.metadata.catalogs.pyiceberg_answers import load_metadata, renewing_token
from harness.metadata.catalogs.pyiceberg_rest import read_response
from harness.metadata.iceberg.server.calls import LONGEST_PLANNING_S
from harness.metadata.iceberg.server.protocol import PLANNING_MODE, Answer, Call, calls_of
from harness.metadata.iceberg.server.refusals import without_secrets_in_error
from harness.storage.clients import retry_after_s


@dataclass(frozen=True, slots=True)
class PyIcebergTransport:
    """A `harness.metadata.iceberg.server.protocol.Transport` of a REST catalog.

    Attributes:
        of_catalog: The catalog. Its client is a REST client.
        table: The name of the table.
        calls: The calls that the server offers.
    """

    of_catalog: PyIcebergCatalog
    table: Name
    calls: frozenset[Call] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "calls", calls_of(getattr(self.of_catalog.client, "_supported_endpoints", ())))

    @property
    def catalog(self) -> str:
        """The name of the catalog."""
        return self.of_catalog.name

    def send(self, call: Call, *, plan_id: str | None = None, body: Mapping[str, Any] | None = None) -> Answer:
        """Send a request, and return the answer, even if its status is an error."""
        from pyiceberg.catalog.rest import Endpoints

        client, secrets = self.of_catalog.client, self.of_catalog.secrets
        method, path, query = call.request(plan_id)
        options: dict[str, Any] = {
            "params": query,
            "data": None if body is None else json.dumps(body).encode(),
            # A redirected request would be sent again, with the token and without its body.
            "allow_redirects": False,
            "stream": True,
            # Some servers answer only when the plan is complete.
            "timeout": LONGEST_PLANNING_S,
        }
        with translate_errors(self.catalog, self.of_catalog.uri, f"{call.name} {name_text(self.table)}", secrets):
            place = client.url(Endpoints.load_table, **client._split_identifier_for_path(self.table))
            response = renewing_token(client, lambda: client._session.request(method, place + path, **options))
            read_response(self.catalog, response)
        return Answer(
            status=response.status_code,
            document=self._document(response.status_code, response.content, secrets),
            retry_after_s=retry_after_s(response.headers.get("Retry-After", "")),
            size=len(response.content),
        )

    def _document(self, status: int, content: bytes, secrets: Sequence[str]) -> Mapping[str, Any]:
        """Return the JSON object of an answer. The content is ignored if it is no object and the status is an error."""
        try:
            document = json.loads(content) if content else {}
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            if status >= 300:
                return {}
            raise StorageError(f"Catalog {self.catalog} did not answer with a JSON object", cause="CatalogAnswer")
        return without_secrets_in_error(document, secrets)


def table_server(catalog: PyIcebergCatalog, name: Name, answer: TableAnswer) -> TableServer:
    """Return the server of a REST catalog, for one table.

    Args:
        catalog: The catalog.
        name: The name of the table.
        answer: The answer of the catalog about the table.
    """
    modes = (properties.get(PLANNING_MODE) for properties in (answer.properties, catalog.client.properties))

    def metadata() -> bytes:
        with translate_errors(catalog.name, catalog.uri, f"the metadata of {name_text(name)}", catalog.secrets):
            return json.dumps(load_metadata(catalog.client, name)).encode()

    return TableServer(
        transport=PyIcebergTransport(catalog, name),
        mode=next((mode.lower() for mode in modes if isinstance(mode, str)), None),
        metadata=metadata,
        located=partial(catalog.located, name, answer),
    )
