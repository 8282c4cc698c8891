"""Problem: the arms that can be pulled, the targets to choose among, and the error probability."""

from __future__ import annotations

import hashlib
import math
import reprlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bestarm.checks import not_negative, probability, vector
from bestarm.defaults import DELTA
from bestarm.errors import InvalidInputError, UnidentifiableError
from bestarm.numerics.geometry import Array, Span, affine_span, identical_rows, linear_span
from bestarm.tables import TextTable

__all__ = [
    "Problem",
    "as_features",
    "as_problem",
    "as_weights",
    "check_identifiable",
    "one_hot",
    "problem_of",
    "read_names",
]

_SAME_LEVEL = 1e-5  # relative: how far off a level that features express may be
_LISTED = 8  # labels that a notebook shows
_UNITS = "It is a scale in units of the reward."


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Problem:
    """A best-arm identification problem, validated once and frozen.

    A pull of source arm `a` at round t pays x_a·θ + ν_t + noise, where the baseline ν_t may depend
    on everything before round t, but not on `a`. The goal is the target with the largest z·θ. All
    arguments are attributes too, features as read-only arrays; `span` is that of the source.

    Args:
        source: the arms that can be pulled: their names, where each is learned separately; or
            their features, one row per arm: anything NumPy reads, or a data frame whose index holds
            the labels.
        target: features of the targets to choose among, one row per target; the source if left
            out.
        delta: the allowed probability of naming a wrong target; at most 0.5.
        noise: the sub-Gaussian scale of the noise (a standard deviation, for Gaussian noise).
        baseline: a bound on |ν_t|. Zero says that there is no baseline.
        source_labels: one name per source arm.
        target_labels: one name per target.

    Raises:
        InvalidInputError: a shape, a number or a label is invalid.
        UnidentifiableError: two targets cannot be distinguished by pulling this source.

    Example:
        >>> from bestarm import Problem
        >>> problem = Problem([[1, 0], [0, 1], [0.6, 0.8]], delta=0.05)
        >>> problem.arms, problem.targets, problem.rank
        (3, 3, 2)
        >>> Problem(["old", "new"]).source_labels
        ('old', 'new')
    """

    source: Array
    target: Array
    delta: float
    noise: float
    baseline: float
    source_labels: tuple[str, ...]
    target_labels: tuple[str, ...]
    span: Span

    def __init__(
        self,
        source: object,
        target: object = None,
        *,
        delta: float = DELTA,
        noise: float = 1.0,
        baseline: float = 1.0,
        source_labels: Sequence[object] | None = None,
        target_labels: Sequence[object] | None = None,
    ) -> None:
        field = "source_labels"
        if (named := read_names(source)) is not None:
            if source_labels is not None:
                raise InvalidInputError(
                    "`source` holds names, and `source_labels` others.",
                    field="source_labels",
                    value=source_labels,
                    remedy="Leave one of them out.",
                )
            source, source_labels, field = one_hot(len(named)), named, "source"
        arms = as_features(source, "source")
        labels = _read_labels(source, source_labels, field, len(arms))
        if target is None:
            options = arms
            default = labels if target_labels is None else target_labels
            names = _read_labels(None, default, "target_labels", len(arms))
        else:
            options = as_features(target, "target")
            names = _read_labels(target, target_labels, "target_labels", len(options))
        self.__dict__.update(
            source=arms,
            target=options,
            delta=probability(delta),
            noise=not_negative(noise, "noise", remedy=_UNITS),
            baseline=not_negative(baseline, "baseline", remedy=_UNITS),
            source_labels=labels,
            target_labels=names,
        )
        _check_scale(self.noise, self.baseline, "noise")
        self._check_shapes()
        self.__dict__["span"] = affine_span(arms)
        self._refuse_duplicates()
        check_identifiable(self.span, options, names)

    def _check_shapes(self) -> None:
        if self.source.shape[1] != self.target.shape[1]:
            raise InvalidInputError(
                f"`target` has {self.target.shape[1]} features and `source` has "
                f"{self.source.shape[1]}.",
                field="target",
                value=self.target.shape,
                remedy="Describe both by the same features, in the same order.",
            )
        if len(self.target) < 2:
            (only,), same = self.target_labels, self.target is self.source
            raise InvalidInputError(
                f"There is only one option, {only!r}.",
                field="source" if same else "target",
                value=only,
                remedy="Give at least two.",
            )

    def _refuse_duplicates(self) -> None:
        pair = identical_rows(self.span, self.target)
        if pair is None:
            return
        first, second = (self.target_labels[i] for i in pair)
        same = (self.target[pair[0]] == self.target[pair[1]]).all()
        raise InvalidInputError(
            f"Targets {first!r} and {second!r} have identical features"
            f"{'' if same else ' up to rounding'}, so neither can be better than the other.",
            field="target",
            value=(first, second),
            remedy="Remove one of them.",
        )

    @cached_property
    def expresses_level(self) -> bool:
        """Whether features express a level that all arms share, as those of plain names do.

        One that they express but for a hundred-thousandth counts: what tells them apart is lost.
        """
        span = linear_span(self.source)
        coordinates, ones = span.coordinates(self.source), np.ones(self.arms)
        nearest = coordinates @ np.linalg.lstsq(coordinates, ones, rcond=None)[0]
        return self.span.rank < span.rank or bool(np.abs(nearest - 1).max() < _SAME_LEVEL)

    @property
    def unstructured(self) -> bool:
        """Whether every target is an arm of its own, which no other arm says anything about."""
        return self.compares_arms and self.span.rank == self.arms - 1

    @property
    def compares_arms(self) -> bool:
        """Whether the targets are the source arms, in their order."""
        return self.source is self.target or np.array_equal(self.source, self.target)

    @property
    def drifts(self) -> bool:
        """Whether there may be a baseline."""
        return self.baseline > 0

    @property
    def scale(self) -> float:
        """s = max(noise, baseline): rewards divided by s meet the paper's normalisation.

        The paper divides by R + α, which is 2 in its own normalised case, R = α = 1. Dividing by
        the maximum meets its assumptions too, needs up to four times fewer pulls, and is what its
        experiments do.
        """
        return max(self.noise, self.baseline)

    @property
    def arms(self) -> int:
        """K, the number of source arms."""
        return len(self.source)

    @property
    def targets(self) -> int:
        """H, the number of targets."""
        return len(self.target)

    @property
    def dimension(self) -> int:
        """d, the number of features."""
        return int(self.source.shape[1])

    @property
    def rank(self) -> int:
        """r, the dimension of the affine span of the source."""
        return self.span.rank

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the features: equal for problems with the same source and target."""
        digest = hashlib.sha256()
        for features in (self.source, self.target):
            digest.update(repr(features.shape).encode())
            digest.update(features.tobytes())
        return digest.hexdigest()

    def with_delta(self, delta: float) -> Problem:
        """The same problem with another allowed error probability."""
        return self._replaced(delta=probability(delta))

    def with_baseline(self, baseline: float) -> Problem:
        """The same problem with another bound on |ν_t|."""
        bound = not_negative(baseline, "baseline", remedy=_UNITS)
        _check_scale(self.noise, bound, "baseline")
        return self._replaced(baseline=bound)

    def with_option(self, label: str, features: object = None) -> Problem:
        """The same problem with one more arm, which is a target too, at the end.

        Args:
            label: its name.
            features: its features; if left out, it gets a dimension of its own, in which all others
                are 0, as is right for options without features.

        Raises:
            InvalidInputError: the label is taken, the targets are not the arms, or there are more
                or fewer features than the others have.

        Example:
            >>> Problem(["old", "new"]).with_option("video").source_labels
            ('old', 'new', 'video')
        """
        if not self.compares_arms:
            raise InvalidInputError(
                "Options can be added only where the arms themselves are compared.",
                field="target",
                value=self.target.shape,
                remedy="Create another experiment with the arms and the targets that are wanted.",
            )
        if label in {*self.source_labels, *self.target_labels}:
            raise InvalidInputError(
                f"There is an option {label!r} already.",
                field="option",
                value=label,
                remedy="Choose another name: one that was used is never used again.",
            )
        if features is None:
            row = np.append(np.zeros(self.dimension), 1.0)
            rows = np.column_stack([self.source, np.zeros(self.arms)])
        else:
            rows, row = self.source, vector(features, "features")
            if row.shape != (self.dimension,):
                raise InvalidInputError(
                    f"`features` has {row.size} numbers; those of the other options have "
                    f"{self.dimension}.",
                    field="features",
                    value=row.size,
                    remedy="Give as many, or leave them out for an option that shares none.",
                )
        return Problem(
            np.vstack([rows, row]),
            delta=self.delta,
            noise=self.noise,
            baseline=self.baseline,
            source_labels=(*self.source_labels, label),
            target_labels=(*self.target_labels, label),
        )

    def _replaced(self, **parts: float) -> Problem:
        other = copy(self)
        other.__dict__.pop("_key", None)
        other.__dict__.update(parts)
        return other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Problem) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def _key(self) -> tuple[object, ...]:
        labels = (self.source_labels, self.target_labels)
        return (self.fingerprint, self.delta, self.noise, self.baseline, labels)

    def _repr_html_(self) -> str:
        facts = {"options": _listed(self.target_labels)}
        if not self.compares_arms:
            facts = {"arms": _listed(self.source_labels), "targets": facts["options"]}
        if not np.array_equal(self.source, one_hot(self.dimension)):
            facts |= {"features": f"{self.dimension}, of rank {self.rank}"}
        facts |= {"δ": f"{self.delta:g}", "noise": f"{self.noise:g}"}
        facts |= {"baseline": f"up to {self.baseline:g}" if self.drifts else "none"}
        return TextTable.of([*facts], [[*facts.values()]]).to_html()

    def __repr__(self) -> str:
        return (
            f"Problem({self.arms} source arms, {self.targets} targets, {self.dimension} features "
            f"of rank {self.rank}, delta={self.delta:g}, noise={self.noise:g}, "
            f"baseline={self.baseline:g})"
        )


def _check_scale(noise: float, baseline: float, field: str) -> None:
    if noise == 0 and baseline == 0:
        raise InvalidInputError(
            "`noise` and `baseline` are both 0: the rewards would have no scale.",
            field=field,
            value=0.0,
            remedy="Give at least one of them a positive value.",
        )


def _listed(labels: Sequence[str]) -> str:
    """How many there are, and the names of the first."""
    more = ", …" if len(labels) > _LISTED else ""
    return f"{len(labels):,}: {', '.join(labels[:_LISTED])}{more}"


def _read_labels(
    features: object, labels: Sequence[object] | None, field: str, count: int
) -> tuple[str, ...]:
    """The labels of the rows of a table; by default the index of a data frame, or row numbers."""
    if labels is None and hasattr(features, "to_numpy"):
        labels = getattr(features, "index", None)
    if labels is None:
        return tuple(str(i) for i in range(count))
    entries = _as_names(labels, field)
    names = tuple(map(str, entries))
    if len(names) != count:
        raise InvalidInputError(
            f"`{field}` has {len(names)} labels for {count} rows.",
            field=field,
            value=len(names),
            remedy="Give one label per row.",
        )
    counts = Counter(names)
    for label, name in zip(entries, names, strict=True):
        if label is None or (isinstance(label, float) and math.isnan(label)):
            fault, remedy = ", which is not a name", "Give every row a name."
        elif not name.strip():
            fault, remedy = ", which is empty", "Give each a readable name."
        elif name.encode("utf-8", "ignore").decode() != name:
            fault, remedy = ", which cannot be written as text", "Write it in UTF-8."
        elif counts[name] > 1:
            fault, remedy = " twice", "Labels must be unique."
        else:
            continue
        raise InvalidInputError(
            f"`{field}` holds {name!r}{fault}.", field=field, value=name, remedy=remedy
        )
    return names


def read_names(source: object) -> list[str] | None:
    """The names that a source consists of; None if it holds features."""
    if isinstance(source, (str, Mapping)) or getattr(source, "ndim", 1) != 1:
        return None
    entries = list(source) if isinstance(source, Iterable) else []
    return entries if entries and all(isinstance(each, str) for each in entries) else None


def _as_names(values: object, field: str) -> list[object]:
    """A list of names; a text is not one."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidInputError(
            f"`{field}` must be a list of names; got {values!r}.",
            field=field,
            value=values,
            remedy='For example ["old", "new"].',
        )
    return list(values)


def as_problem(problem: object) -> Problem:
    """Return a Problem unchanged; refuse anything else, such as features."""
    if not isinstance(problem, Problem):
        raise InvalidInputError(
            f"`problem` must be a Problem; got {type(problem).__name__}.",
            field="problem",
            value=problem,
            remedy='Wrap names or features: Problem(["old", "new"]).',
        )
    return problem


def one_hot(count: int) -> Array:
    """Features of options without features: one indicator per option."""
    return np.eye(count)


def problem_of(options: Sequence[str] | None, source: object = None, **parts: Any) -> Problem:
    """The problem of a document, which has names of the options, features of them, or both."""
    if options is None and source is None:
        raise InvalidInputError(
            "There are no options.",
            field="options",
            remedy='Give their names, like ["old", "new"].',
        )
    if options is not None:
        _read_labels(None, _as_names(options, "options"), "options", len(options))
    if source is None:
        return Problem(options, **parts)
    return Problem(source, source_labels=options, **parts)


def as_features(
    features: object, field: str, *, unit: str = "arm", entry: str = "feature"
) -> Array:
    """Validate a table: two-dimensional, finite, not empty. It becomes read-only.

    `unit` and `entry` say what its rows and its numbers are.
    """
    try:
        table = np.array(features, dtype=float, order="C")
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(
            f"`{field}` could not be read as a table of numbers{_defect(features)}.",
            field=field,
            value=features,
            remedy=f"Give one row per {unit}, one number per {entry}, and labels separately."
            if not isinstance(features, str)
            else 'Names are a list: ["old", "new"].',
        ) from None
    if table.ndim != 2 or table.size == 0:
        raise InvalidInputError(
            f"`{field}` must be a table with one row per {unit}; got shape {table.shape}.",
            field=field,
            value=table.shape,
            remedy=f"A single {entry} is a column: shape ({unit}s, 1).",
        )
    if not np.isfinite(table).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(table))[0])
        raise InvalidInputError(
            f"`{field}` has {table[row, column]} in row {row}, column {column}.",
            field=field,
            value=float(table[row, column]),
            remedy=f"Every {entry} must be a finite number.",
        )
    largest = float(np.max(np.abs(table)))
    if largest and not 1e-155 < largest < 1e153:
        raise InvalidInputError(
            f"`{field}` has a {entry} of size {largest:g}, too large or too small to compute with.",
            field=field,
            value=largest,
            remedy="Change their unit; designs and decisions do not depend on it.",
        )
    table = table + 0.0  # −0.0 and 0.0 are the same feature
    table.flags.writeable = False
    return np.asarray(table)


def _defect(features: object) -> str:
    """What keeps a list of rows from being a table of numbers, as the end of a sentence."""
    if not isinstance(features, (list, tuple)):
        return ""
    rows = [each if isinstance(each, (list, tuple)) else [each] for each in features]
    lengths = [len(row) for row in rows]
    if len(set(lengths)) > 1:
        return f": its rows have from {min(lengths)} to {max(lengths)} entries"
    for number, row in enumerate(rows):
        for column, entry in enumerate(row):
            try:
                float(entry)
            except (TypeError, ValueError, OverflowError):
                return f": row {number}, column {column} is {reprlib.repr(entry)}"
    return ""


def check_identifiable(span: Span, target: Array, labels: Sequence[str] | None = None) -> None:
    """Raise if a contrast of two targets lies outside the span that pulls inform about."""
    inside = span.contains(target - target[0])
    if inside.all():
        return
    other = int(np.flatnonzero(~inside)[0])
    first, second = (0, other) if labels is None else (labels[0], labels[other])
    raise UnidentifiableError(
        f"Targets {first!r} and {second!r} cannot be distinguished by pulling this source: their "
        "difference is not a combination of differences between source arms.",
        field="target",
        value=(first, second),
        remedy="Add a source arm that varies in the missing direction, or drop one of them.",
    )


def as_weights(weights: object, arms: int, field: str = "weights") -> NDArray[np.float64]:
    """Validate a distribution over source arms."""
    try:
        array = np.array(weights, dtype=float)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.shape != (arms,) or not (array >= 0).all() or abs(array.sum() - 1) > 1e-9:
        raise InvalidInputError(
            f"`{field}` must be {arms} probabilities that sum to 1.",
            field=field,
            value=weights,
            remedy="Divide them by their sum.",
        )
    array.flags.writeable = False
    return array
