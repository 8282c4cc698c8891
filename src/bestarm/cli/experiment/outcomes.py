"""Outcomes as they are written on the command line and in files."""

from __future__ import annotations

from pathlib import Path

from bestarm.cli.options import read_number
from bestarm.cli.rows import UserFile
from bestarm.errors import InvalidInputError

_TRUTH = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
_TABLE = "Give a table with the columns id and reward."


def read_id(text: str, where: str = "") -> int:
    """An assignment's id: a whole number in plain digits."""
    try:
        if not text.strip().lstrip("+-").isdecimal():
            raise ValueError  # noqa: TRY301
        return int(text)
    except ValueError:
        raise InvalidInputError(
            f"`id` must be a whole number; got {text!r}{where}.", field="id", value=text
        ) from None


def read_reward(text: str, where: str = "") -> float:
    """A number, or true, false, yes or no; whether it can be a reward the experiment decides."""
    value = _TRUTH.get(text.strip().lower(), read_number(text))
    if value is None:
        raise InvalidInputError(
            f"`reward` must be a number, or true or false; got {text!r}{where}.",
            field="reward",
            value=text,
            remedy="Write decimals with a point: 0.5." if "," in text else "",
        )
    return value


def read_outcomes(path: Path) -> tuple[list[tuple[int, float]], int]:
    """Ids and rewards of a CSV or JSON file, and how many rows have no reward yet.

    A header names the columns `id` and `reward` (or `outcome`), among others; without one there are
    these two. Empty lines are skipped. The file `-` is standard input.

    Raises:
        InvalidInputError: the file does not hold outcomes.
        OSError: the file cannot be read.
    """
    file = UserFile(path, "from", _TABLE)
    outcomes: list[tuple[int, float]] = []
    skipped, columns = 0, None
    for place, fields in file.rows():
        where = f" in {place} of {file.name}"
        if columns is None:
            columns = _columns(fields, where)
            if columns is not None:
                continue
            columns = (0, 1)
            if len(fields) != 2:
                raise _wrong(f"There are {len(fields)} fields{where}, and no header.")
        if len(fields) <= max(columns):
            raise _wrong(f"A field is missing{where}.")
        number, reward = fields[columns[0]], fields[columns[1]]
        if not reward:
            skipped += 1
            continue
        outcomes.append((read_id(number, where), read_reward(reward, where)))
    return outcomes, skipped


def _columns(fields: list[str], where: str) -> tuple[int, int] | None:
    """Where ids and rewards are, if these are names; None if they are values."""
    names = [field.lower() for field in fields]
    if all(not name or name.lstrip("+-")[:1].isdecimal() or name in _TRUTH for name in names):
        return None
    found = [name for name in ("reward", "outcome") if name in names]
    if "id" not in names or not found:
        raise _wrong(f"There are no columns 'id' and 'reward'{where}: it has {', '.join(fields)}.")
    return names.index("id"), names.index(found[0])


def _wrong(what: str) -> InvalidInputError:
    return InvalidInputError(what, field="from", remedy=_TABLE)
