"""Labels of arms and targets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from bestarm.errors import InvalidInputError


def read_labels(
    features: object, labels: Sequence[object] | None, field: str, count: int
) -> tuple[str, ...]:
    """The labels of the rows of a table: unique, readable, as many as there are rows.

    Args:
        features: the table; the index of a data frame holds labels.
        labels: the labels, or None to take them from the index, else the row numbers.
        field: the name of the table, for errors.
        count: the number of rows.

    Raises:
        InvalidInputError: a label is empty, repeated or unreadable, or their number is wrong.
    """
    if labels is None and hasattr(features, "to_numpy"):
        labels = getattr(features, "index", None)
    if labels is None:
        return tuple(str(i) for i in range(count))
    if isinstance(labels, str):
        labels = [labels]
    if not isinstance(labels, Iterable):
        raise InvalidInputError(
            f"`{field}_labels` must be a list of names; got {labels!r}.",
            field=f"{field}_labels",
            value=labels,
            remedy='For example ["old", "new"].',
        )
    given = list(labels)
    names = tuple(map(str, given))
    if len(names) != count:
        raise InvalidInputError(
            f"`{field}_labels` has {len(names)} labels for {count} rows.",
            field=f"{field}_labels",
            value=len(names),
            remedy="Give one label per row.",
        )
    counts = Counter(names)
    for label, name in zip(given, names, strict=True):
        if label is None or (isinstance(label, float) and math.isnan(label)):
            raise _refusal(field, name, ", which is not a name.", "Give every row a name.")
        if not name.strip():
            raise _refusal(field, name, ", which is empty.", "Give every row a readable name.")
        if not name.isascii() and name.encode("utf-8", "ignore").decode() != name:
            raise _refusal(field, name, ", which cannot be written as text.", "Write it in UTF-8.")
        if counts[name] > 1:
            raise _refusal(field, name, " twice.", "Labels must be unique.")
    return names


def _refusal(field: str, name: str, fault: str, remedy: str) -> InvalidInputError:
    message = f"`{field}_labels` holds {name!r}{fault}"
    return InvalidInputError(message, field=f"{field}_labels", value=name, remedy=remedy)
