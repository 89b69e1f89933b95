"""The site has copies of the pages beside docs/, and links to them."""

import pytest

from build import links_to_copies


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("[Security](../SECURITY.md)", "[Security](security.md)"),
        ("[log](../../CHANGELOG.md#unreleased)", "[log](../changelog.md#unreleased)"),
        ("[README](../README.md)", "[README](../README.md)"),
    ],
)
def test_links_to_pages_beside_docs_lead_to_their_copies(link, expected):
    assert links_to_copies(link) == expected
