"""The choice between plans of a catalog's server and plans that harness makes from the metadata files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.errors import RequestError, UnsupportedError
from harness.metadata.catalogs.catalog import TableLocation, TableServer
from harness.metadata.catalogs.plan_credentials import location_of_plan
from harness.metadata.iceberg.server.protocol import Call, PlanAnswer, PlanServer
from harness.metadata.plan.read_options import Planning
from harness.storage.stores import Storage


def chosen_server(located: TableLocation | None, location: str, planning: str) -> TableServer | None:
    """Return the server that plans the reads of a table, or None if harness plans them.

    Args:
        located: The catalog's answer. None for a table that was not named in a catalog.
        location: The location that the user passed, for messages.
        planning: The value of a member of `Planning`.

    Raises:
        RequestError: `planning` has an unknown value, or a server is required and the table is not named in a catalog.
        UnsupportedError: A server is required, and the catalog's server does not plan reads of the table.
    """
    if planning not in [each.value for each in Planning]:
        expected = f"expected one of {', '.join(each.value for each in Planning)}"
        raise RequestError(f"Invalid option planning={planning!r}: {expected}", options=("planning",))
    server = None if located is None else located.server
    if server is not None and Call.PLAN in server.transport.calls:
        chosen = server.mode if planning == Planning.AUTO.value else planning
        return server if chosen == Planning.SERVER.value else None
    if planning != Planning.SERVER.value:
        return None
    option = "Cannot use planning='server'"
    if located is None:
        message = f"{option}: {location!r} is a path, and only the server of a catalog plans. Pass the table's name"
        raise RequestError(message, options=("planning",))
    if located.format == "delta":
        message = f"{option}: the table is delta, the option is for iceberg tables"
        raise RequestError(message, table=located.qualified, options=("planning",))
    reason = "has no server that plans reads" if server is None else "does not list the call that plans a read"
    raise UnsupportedError(
        f"{option}: catalog {located.catalog} {reason}. Open the table with planning='client'",
        cause="ServerPlanning",
        table=located.qualified,
        options=("planning",),
    )


def plan_server(
    located: TableLocation, server: TableServer, open_storage: Callable[[TableLocation, Sequence[str]], Storage]
) -> PlanServer:
    """Return the server that plans the reads of a table, in the form that planning uses.

    Args:
        located: The catalog's answer about the table.
        server: The server of the catalog.
        open_storage: Returns the storage for an answer of the catalog and the paths to read.
    """

    def storage(answer: PlanAnswer, paths: Sequence[str]) -> Storage:
        return open_storage(location_of_plan(located, server, answer, paths), paths)

    return PlanServer(name=located.qualified, transport=server.transport, metadata=server.metadata, storage=storage)
