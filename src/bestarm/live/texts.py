"""Names and free text, in the form that every database and every path can keep."""

from __future__ import annotations

from bestarm.errors import InvalidInputError

__all__ = ["text", "title", "words"]


def words(value: object) -> str:
    """Free text in the form that every database can keep."""
    return str(value)[:10_000].encode("utf-8", "replace").decode().replace("\0", "")


def title(value: object) -> str:
    """A name that can be a part of a path: programs elsewhere reach the experiment by it."""
    name = text(value, "name")
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


def text(value: object, field: str) -> str:
    """A name: short, and such that it can be printed."""
    if not isinstance(value, str) or not 0 < len(value) <= 200 or not value.isprintable():
        raise InvalidInputError(
            f"`{field}` must be a text of 1 to 200 characters; got {value!r}.",
            field=field,
            value=value,
        )
    return value
