"""Times as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bestarm.checks import duration
from bestarm.errors import InvalidInputError


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("90", timedelta(seconds=90)),
        ("90s", timedelta(seconds=90)),
        ("1.5m", timedelta(minutes=1.5)),
        (" 12 h ", timedelta(hours=12)),
        ("2d", timedelta(days=2)),
        ("3w", timedelta(weeks=3)),
    ],
)
def test_a_lease_in_any_unit(text: str, meant: timedelta) -> None:
    assert duration(text, "lease") == meant.total_seconds()


@pytest.mark.parametrize("text", ["", "h", "0", "0d", "-1h", "2 hours", "1y", "1h30m", "nan"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="`lease` must be a time like 90s"):
        duration(text, "lease")
