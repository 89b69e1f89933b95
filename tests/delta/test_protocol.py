import json

import pytest

from harness.errors import InvalidTableError, UnsupportedError
from harness.metadata.delta.actions import Metadata, Protocol
from harness.metadata.delta.protocol import (
    check_protocol,
    is_enabled,
    protocol_warnings,
    redirect_warnings,
)


def protocol(reader, readers=None, writers=(), writer_version=7):
    return Protocol(
        min_reader_version=reader,
        min_writer_version=writer_version,
        reader_features=None if readers is None else tuple(readers),
        writer_features=None if writers is None else (*(readers or ()), *writers),
    )


METADATA = Metadata(id="m", schema_string="")

READ = """
    columnMapping deletionVectors timestampNtz timestampWithoutTimezone typeWidening typeWidening-preview
    v2Checkpoint vacuumProtocolCheck variantType variantType-preview variantShredding variantShredding-preview
    geospatial geospatial-dev catalogManaged catalogOwned-preview
"""
REFUSED = "adaptiveMetadata-preview redirectReaderWriter-preview timestampNanos intervalType testReaderWriter fooBar"
WRITER_ONLY = """
    appendOnly invariants checkConstraints generatedColumns allowColumnDefaults identityColumns changeDataFeed
    rowTracking domainMetadata clustering inCommitTimestamp icebergCompatV1 icebergCompatV2 icebergCompatV3
    icebergWriterCompatV1 icebergWriterCompatV3 materializePartitionColumns collations collations-preview
    checkpointProtection coordinatedCommits-preview redirectWriterOnly-preview columnMappingUsageTracking
    notYetInvented
"""


def test_features_are_read_or_refused_by_their_names():
    for name in READ.split():
        check_protocol(protocol(3, [name]), METADATA)
    for name in REFUSED.split():
        with pytest.raises(UnsupportedError, match=f"'{name}'") as error:
            check_protocol(protocol(3, ["deletionVectors", name]), METADATA)
        assert error.value.cause == "UnsupportedFeature"
        assert "deletionVectors" not in str(error.value)
    for name in WRITER_ONLY.split():
        for reader in (1, 2, 3):
            check_protocol(protocol(reader, [] if reader == 3 else None, [name], writer_version=99), METADATA)


@pytest.mark.parametrize(
    ("protocol_action", "message"),
    [
        pytest.param(
            protocol(1, ["timestampNtz"]), "readerFeatures 'timestampNtz' with minReaderVersion 1", id="1-with-list"
        ),
        pytest.param(protocol(2, ["columnMapping"]), "minReaderVersion 2", id="2-with-list"),
        pytest.param(protocol(0), "got minReaderVersion 0", id="0"),
        pytest.param(protocol(-1), "got minReaderVersion -1", id="negative"),
    ],
)
def test_contradictions_are_refused(protocol_action, message):
    with pytest.raises(InvalidTableError, match=message) as error:
        check_protocol(protocol_action, METADATA)
    assert error.value.rule == "delta P1"


@pytest.mark.parametrize("text", ["", "1", "yes", " true", "truth"])
def test_other_texts_are_not_booleans(text):
    with pytest.raises(InvalidTableError, match=r"delta\.enableRowTracking"):
        is_enabled({"delta.enableRowTracking": text}, "delta.enableRowTracking")


def test_coordinated_commits_are_warned_of():
    given = protocol(1, writers=["CoordinatedCommits-preview"])
    (warning,) = protocol_warnings(given)
    assert "delta P6" in warning
    assert protocol_warnings(protocol(1, writers=["appendOnly"])) == ()


def redirected(state, name="delta.redirectReaderWriter-preview", place="s3://b/new"):
    spec = json.dumps({"sourcePath": "s3://b/old", "destPath": place})
    return {name: json.dumps({"type": "PathBasedRedirect", "state": state, "spec": spec, "noRedirectRules": []})}


def with_properties(configuration):
    return Metadata(id="m", schema_string="", configuration=configuration)


@pytest.mark.parametrize("state", ["ENABLE-REDIRECT-IN-PROGRESS", "DROP-REDIRECT-IN-PROGRESS"])
def test_a_redirection_in_progress_is_warned_of(state):
    check_protocol(protocol(1), with_properties(redirected(state)), table="s3://b/old")
    (warning,) = redirect_warnings(redirected(state), table="s3://b/old")
    assert state in warning


def test_a_redirection_of_writers_leaves_the_table_to_readers():
    ready = redirected("REDIRECT-READY", "delta.redirectWriterOnly-preview")
    check_protocol(protocol(1), with_properties(ready), table="s3://b/old")
    (warning,) = redirect_warnings(ready, table="s3://b/old")
    assert warning == "Writers of the table now write to s3://b/new, so this may be an older version"
    assert redirect_warnings({"delta.redirectWriterOnly-preview": "?"}, table="s3://b/old") == ()
