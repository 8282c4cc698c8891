"""The picture of the page in the documentation is of today's page."""

from __future__ import annotations

from pathlib import Path

from benchmarks.page import stamp_of

DOCS = Path(__file__).parents[2] / "docs"


def test_the_picture_is_of_todays_page() -> None:
    """Where it is not, the command in the stamp takes it again."""
    stamp = (DOCS / "page.png.stamp").read_text(encoding="utf-8")
    assert stamp == stamp_of(DOCS / "page.png")
    command = stamp.splitlines()[0]
    assert command in (DOCS / "watch.md").read_text(encoding="utf-8")


def test_a_picture_or_a_page_that_has_changed_is_found(tmp_path: Path) -> None:
    picture = tmp_path / "page.png"
    picture.write_bytes(b"before")
    before = stamp_of(picture)
    picture.write_bytes(b"after")
    assert stamp_of(picture) != before
