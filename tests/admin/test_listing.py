"""Parts of long lists say where they are, and lead to the next one."""

from __future__ import annotations

import pytest

from django_qless.admin.listing import listing, scanned
from tests.admin.rows import view


@pytest.mark.parametrize(
    ("path", "rows", "total", "read", "words", "first", "following"),
    [
        ("/jobs/", 0, 0, None, "0 in total", "", ""),
        ("/jobs/", 3, 3, None, "1–3 of 3", "", ""),
        ("/jobs/", 50, 1000, None, "1–50 of 1,000", "", "/jobs/?offset=50"),
        ("/jobs/?offset=50", 50, 100, None, "51–100 of 100", "/jobs/", ""),
        # Some came while the page was made.
        ("/jobs/", 5, 3, None, "1–5 of 5", "", ""),
        # Those that are gone are not shown, and the next page begins behind them.
        ("/jobs/", 48, 1000, 50, "1–48 of 1,000", "", "/jobs/?offset=50"),
        ("/jobs/", 0, 1000, 50, "1,000 in total", "", "/jobs/?offset=50"),
        # There is no way on from behind the end.
        ("/jobs/?offset=50", 0, 7, None, "7 in total", "/jobs/", ""),
        # The rest of the query stays; but for the part that is refreshed.
        (
            *("/jobs/?q=a+b&offset=50&live=1", 50, 200, None, "51–100 of 200"),
            *("/jobs/?q=a+b", "/jobs/?q=a+b&offset=100"),
        ),
    ],
)
def test_a_part_of_a_list(
    path: str,
    rows: int,
    total: int,
    read: int | None,
    words: str,
    first: str,
    following: str,
) -> None:
    found = listing(view(path), range(rows), total, read=read)
    assert (found.words, found.first_url, found.next_url) == (words, first, following)
    assert found.next_words == "Next"


@pytest.mark.parametrize(
    ("path", "rows", "following", "words", "next_url", "unfound"),
    [
        (
            *("/jobs/", 3, 1000, "3 found; scanned 1,000 of 5,000"),
            *("/jobs/?offset=1000", 0),
        ),
        (
            *("/jobs/?offset=1000", 0, 2000, "0 found; scanned 2,000 of 5,000"),
            *("/jobs/?offset=2000", 2000),
        ),
        ("/jobs/?offset=4500", 0, None, "0 found; scanned 5,000 of 5,000", "", 0),
    ],
)
def test_a_part_of_a_search(
    path: str,
    rows: int,
    following: int | None,
    words: str,
    next_url: str,
    unfound: int,
) -> None:
    found = scanned(
        *(view(path), range(rows)), count=1000, total=5000, following=following
    )
    assert (found.words, found.next_url, found.scanned) == (words, next_url, unfound)
    assert (found.total, found.next_words) == (5000, "Continue")
    assert found.first_url == ("/jobs/" if "offset" in path else "")
