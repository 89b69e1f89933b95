"""The calls of the Iceberg REST specification that plan a scan on the server.

    planTableScan ──▶ completed ─▶ file scan tasks, and plan tasks ──▶ fetchScanTasks, one call for each plan task
        └──▶ submitted ──▶ fetchPlanningResult, again and again until it is completed

cancelPlanning ends a plan whose tasks are no longer needed. A plan may come with credentials for its files, which
loadCredentials renews.

Spec: Iceberg, open-api/rest-catalog-open-api.yaml.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol
from urllib.parse import quote

from harness.storage.records import dataclass
from harness.storage.stores import Storage

PLANNING_MODE = "scan-planning-mode"
"""The property with which a server says who plans the reads of a table: `client` or `server`."""


class Call(enum.Enum):
    """A call of the server. The value is the HTTP method, and the path relative to the path of the table."""

    PLAN = "POST /plan"
    RESULT = "GET /plan/{plan-id}"
    CANCEL = "DELETE /plan/{plan-id}"
    TASKS = "POST /tasks"
    CREDENTIALS = "GET /credentials"

    @property
    def endpoint(self) -> str:
        """The call as the configuration of a server lists it."""
        method, path = self.value.split(" ")
        return f"{method} /v1/{{prefix}}/namespaces/{{namespace}}/tables/{{table}}{path}"

    def request(self, plan_id: str | None) -> tuple[str, str, dict[str, str]]:
        """Return the method of a request, its path below that of the table, and its query parameters.

        Args:
            plan_id: The plan, for the calls that name one.
        """
        method, path = self.value.split(" ")
        query = {"planId": plan_id} if self is Call.CREDENTIALS and plan_id is not None else {}
        return method, path.replace("{plan-id}", quote(plan_id or "", safe="")), query


def calls_of(endpoints: Iterable[object]) -> frozenset[Call]:
    """Return the calls in the endpoints that the configuration of a server lists."""
    listed = {str(endpoint) for endpoint in endpoints}
    return frozenset(call for call in Call if call.endpoint in listed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A server's answer to a call.

    Attributes:
        status: The HTTP status.
        document: The parsed JSON object. Empty if the answer has no content.
        retry_after_s: The number of seconds to wait before the request is sent again, or None if the server states
            none.
        size: The size of the content in bytes, after decompression. 0 if unknown.
    """

    status: int
    document: Mapping[str, Any]
    retry_after_s: float | None = None
    size: int = 0


class Transport(Protocol):
    """A connection to the server of a catalog, for the calls about one table. Several threads may use it at once."""

    @property
    def catalog(self) -> str:
        """The name of the catalog, for messages."""

    @property
    def calls(self) -> frozenset[Call]:
        """The calls that the server offers, as its configuration lists them."""

    def send(self, call: Call, *, plan_id: str | None = None, body: Mapping[str, Any] | None = None) -> Answer:
        """Send a request, and return the answer, even if its status is an error.

        The text of errors that the server returns must not contain the secrets of the transport.

        Args:
            call: The call.
            plan_id: The id of the plan, for calls whose path contains it. `CREDENTIALS` sends it as a query parameter.
                It may contain any printable character, so quote it.
            body: The JSON object to send, for `PLAN` and `TASKS`.

        Raises:
            StorageError: There is no answer, it is too large, it is not a JSON object, or it redirects to another host.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """A request for a plan of one snapshot, or of the files that a range of snapshots appended.

    Attributes:
        snapshot_id: The snapshot. None for a range.
        start_snapshot_id: The snapshot before the first snapshot of the range. None for one snapshot.
        end_snapshot_id: The last snapshot of the range. None for one snapshot.
        select: Full names of the columns that are read. None for all.
        filter: A condition in Iceberg's JSON, see `expressions`. None for all rows.
        stats_fields: Full names of the columns whose statistics the files must have. None for no statistics.
        use_snapshot_schema: True if names refer to the snapshot's schema. False for the table's current schema.
    """

    snapshot_id: int | None = None
    start_snapshot_id: int | None = None
    end_snapshot_id: int | None = None
    select: tuple[str, ...] | None = None
    filter: Any = field(default=None, hash=False)
    stats_fields: tuple[str, ...] | None = None
    use_snapshot_schema: bool = False

    def document(self) -> dict[str, Any]:
        """Return the JSON object of the request."""
        values: dict[str, Any] = {
            "snapshot-id": self.snapshot_id,
            "start-snapshot-id": self.start_snapshot_id,
            "end-snapshot-id": self.end_snapshot_id,
            "select": None if self.select is None else list(self.select),
            "filter": self.filter,
            "stats-fields": None if self.stats_fields is None else list(self.stats_fields),
        }
        present = {key: value for key, value in values.items() if value is not None}
        return {**present, "case-sensitive": True, "use-snapshot-schema": self.use_snapshot_schema}


@dataclass(frozen=True, slots=True)
class Credential:
    """Credentials that a server lends for the files whose paths start with a prefix.

    Attributes:
        prefix: The start of the paths.
        config: Properties, with the same names as in answers about tables.
    """

    prefix: str
    config: Mapping[str, Any] = field(repr=False, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAnswer:
    """A completed plan, as the server sent it.

    Attributes:
        plan_id: The id of the plan, or None if the server keeps none.
        pages: The answers with files, each with the lists `file-scan-tasks` and `delete-files`. Each answer is followed
            by the answers to the plan tasks that it names. The order does not depend on the time of arrival.
        credentials: The credentials for the files, in the order of `pages`. If several have the same prefix, only the
            last is listed.
        requests: The number of requests.
    """

    plan_id: str | None
    pages: tuple[Mapping[str, Any], ...] = field(repr=False, hash=False)
    credentials: tuple[Credential, ...] = ()
    requests: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanServer:
    """A server that plans the scans of one table.

    Attributes:
        name: The full name of the table, for messages.
        transport: The connection to the server.
        metadata: Returns the current metadata of the table as JSON, with all of its snapshots.
        storage: Returns the storage for the files of a plan, given the plan and the physical paths of its files.
    """

    name: str
    transport: Transport
    metadata: Callable[[], bytes] = field(repr=False)
    storage: Callable[[PlanAnswer, Sequence[str]], Storage] = field(repr=False)
