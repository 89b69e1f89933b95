"""The credentials that a server lends for a plan.

A file is read with the plan's credentials for the longest prefix of the file's path. If no prefix matches, it is read
with the table's credentials. Credentials that expire are renewed with the call loadCredentials or, if the server does
not offer this call, by loading the table again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from harness.errors import StorageError
from harness.metadata.catalogs.catalog import TableLocation, TableServer
from harness.metadata.catalogs.server_properties import Prefixes, expires_ms, is_lent
from harness.metadata.iceberg.server.calls import renew_credentials
from harness.metadata.iceberg.server.protocol import Call, Credential, PlanAnswer
from harness.storage.paths import redact


def location_of_plan(
    located: TableLocation, server: TableServer, answer: PlanAnswer, paths: Sequence[str]
) -> TableLocation:
    """Return the location of a table with the credentials for the files of a plan.

    Args:
        located: The location of the table, with its own credentials.
        server: The server that made the plan.
        answer: The plan.
        paths: The physical paths of its files.
    """
    if not answer.credentials:
        return located
    return _Lease(server, answer.plan_id, paths, answer.credentials).located()


@dataclass(frozen=True, slots=True)
class _Lease:
    """The credentials of a plan.

    Attributes:
        server: The server that lends the credentials.
        plan_id: The id of the plan, or None if the server keeps none.
        paths: The physical paths of the plan's files.
        credentials: The credentials.
    """

    server: TableServer
    plan_id: str | None
    paths: Sequence[str] = field(repr=False)
    credentials: Sequence[Credential]

    def located(self) -> TableLocation:
        """Return the location of the table with these credentials."""
        located = self.server.located(self.credentials, self.paths)
        return replace(located, renew=lambda: self._renewed(located))

    def _renewed(self, before: TableLocation) -> TableLocation:
        """Return the location with new credentials. Drop expiring credentials that the server does not renew."""
        lease = replace(self, credentials=[each for each in self.credentials if expires_ms(each.config) is None])
        transport = self.server.transport
        if self.plan_id is not None and Call.CREDENTIALS in transport.calls:
            renewed = renew_credentials(transport, self.plan_id, table=before.qualified)
            by_prefix = {each.prefix: each for each in (*lease.credentials, *renewed)}
            lease = replace(lease, credentials=tuple(by_prefix.values()))
            located = lease.located()
            if located.expires_ms is None or located.expires_ms > (before.expires_ms or 0):
                return self._checked(located)
        # The server does not renew the credentials of the plan, or the table's credentials are the next to expire.
        if before.renew is None:
            raise self._error(before, "does not renew its credentials, which have expired")
        fresh = before.renew()
        lease = lease if fresh.server is None else replace(lease, server=fresh.server)
        return self._checked(lease.located())

    def _checked(self, located: TableLocation) -> TableLocation:
        """Return a location, or raise StorageError if it lacks credentials for files whose old credentials expire."""
        prefixes = Prefixes(each.prefix for each in self.credentials)
        examples = {prefixes.of(path): path for path in self.paths}
        for credential in self.credentials:
            path = examples.get(credential.prefix)
            if path is not None and expires_ms(credential.config) is not None and not is_lent(located, path):
                raise self._error(
                    located, f"lends no new credentials for {redact(path)}, and the old ones have expired"
                )
        return located

    def _error(self, located: TableLocation, problem: str) -> StorageError:
        message = f"Cannot read the table: catalog {located.catalog} {problem}; read again"
        return StorageError(message, cause="ExpiredCredentials", table=located.qualified)
