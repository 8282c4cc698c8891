"""Names and free text, in the form that every database and every path can keep."""

from __future__ import annotations

import unicodedata

from bestarm.errors import InvalidInputError

__all__ = ["spelled", "spellings", "text", "title", "words"]


def words(value: object) -> str:
    """Free text in the form that every database can keep."""
    return str(value)[:10_000].encode("utf-8", "replace").decode().replace("\0", "")


def title(value: object) -> str:
    """A name that can be a part of a path: programs elsewhere reach the experiment by it."""
    name = text(spelled(value) if isinstance(value, str) else value, "name")
    if "/" in name or name in {".", ".."}:
        raise InvalidInputError(
            f"`name` must not hold a slash, nor be dots alone; got {name!r}.",
            field="name",
            value=name,
            remedy="Try a dash.",
        )
    if name != name.strip():
        raise InvalidInputError(
            f"`name` must not begin or end with a space; got {name!r}.", field="name", value=name
        )
    return name


def spelled(name: str) -> str:
    """A name with its letters encoded in the one way that counts (NFC), however they were typed."""
    return unicodedata.normalize("NFC", name)


def spellings(name: str) -> tuple[str, ...]:
    """A name as it was typed, and as the same letters may be on record."""
    return tuple(dict.fromkeys((name, spelled(name), unicodedata.normalize("NFD", name))))


def text(value: object, field: str) -> str:
    """A name: short, and such that it can be printed."""
    if not isinstance(value, str) or not 0 < len(value) <= 200 or not value.isprintable():
        raise InvalidInputError(
            f"`{field}` must be a text of 1 to 200 characters; got {value!r}.",
            field=field,
            value=value,
        )
    return value
