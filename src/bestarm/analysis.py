"""Analysis of micro-randomised trials: the causal excursion effect, person by person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from bestarm.checks import choice, positive
from bestarm.errors import InvalidInputError
from bestarm.tables import TextTable
from bestarm.units import plural

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Estimate", "ExcursionEffect", "wcls"]

Array = NDArray[np.float64]

_NEEDED = ("person", "available", "probability", "label", "outcome")
_OWN = 1e-9  # a person's leverage is 1 if it is nearer: some effect rests on this person alone


class Estimate(NamedTuple):
    """One estimated number, with its 95 % interval."""

    option: str  # compared with the control
    term: str  # what it is the effect of, or at
    estimate: float
    standard_error: float
    low: float
    high: float
    p_value: float  # of no effect, two-sided


@dataclass(frozen=True, eq=False)
class ExcursionEffect:
    """What other options do to the outcome, in place of the control: the result of `wcls`.

    Attributes:
        control: the option that the others are compared with.
        options: these others.
        moderators: what the effect may depend on.
        estimates: for each option, the effect where all moderators are 0, and the change of the
            effect with each of them.
        covariance: of these estimates, with the correction for few persons.
        shares: the share of each option that the treatment is centered at.
        persons: the number of persons.
        decision_points: of these persons, at which they were available and the outcome is known.
        unavailable: decision points at which they were not.
        missing: available decision points that are left out: the outcome was lost, came too late or
            is outstanding, or the person was erased.
        degrees_of_freedom: persons less coefficients of the regression.
        largest_weight: the largest weight of a decision point. Where it is large, some option was
            hardly ever drawn, and its estimates rest on few rows.
    """

    control: str
    options: tuple[str, ...]
    moderators: tuple[str, ...]
    estimates: Array
    covariance: Array
    shares: Mapping[str, float]
    persons: int
    decision_points: int
    unavailable: int
    missing: int
    degrees_of_freedom: int
    largest_weight: float

    @property
    def coefficients(self) -> tuple[Estimate, ...]:
        """Every estimate: first the effect where all moderators are 0, then its changes."""
        terms = ["effect", *(f"change with {name}" for name in self.moderators)]
        weights = np.eye(len(self.estimates))
        names = [(option, term) for option in self.options for term in terms]
        return tuple(self._estimate(*each, row) for each, row in zip(names, weights, strict=True))

    def at(self, **moderators: float) -> tuple[Estimate, ...]:
        """The effect of each option where the moderators have these values, as `at(evening=1)`.

        Raises:
            InvalidInputError: a moderator has no value, or is unknown.
        """
        for name in moderators:
            choice(name, self.moderators, "moderators")
        for name in self.moderators:
            if name not in moderators:
                message = f"The moderator {name!r} has no value."
                remedy = f"Give all of {', '.join(self.moderators)}."
                raise InvalidInputError(message, field="moderators", value=name, remedy=remedy)
        row = np.array([1.0, *(float(moderators[name]) for name in self.moderators)])
        term = "effect at " + ", ".join(
            f"{name} = {moderators[name]:g}" for name in self.moderators
        )
        places = np.eye(len(self.options))
        return tuple(
            self._estimate(option, term if moderators else "effect", np.kron(place, row))
            for option, place in zip(self.options, places, strict=True)
        )

    def _estimate(self, option: str, term: str, row: Array) -> Estimate:
        value, error = float(row @ self.estimates), float(np.sqrt(row @ self.covariance @ row))
        half = float(stdtrit(self.degrees_of_freedom, 0.975)) * error
        p_value = 2 * float(stdtr(self.degrees_of_freedom, -abs(value) / error)) if error else 0.0
        return Estimate(option, term, value, error, value - half, value + half, p_value)

    def to_frame(self) -> pd.DataFrame:
        """The coefficients as a data frame, one row each."""
        import pandas as pd  # noqa: PLC0415 - optional, and `wcls` was given one

        return pd.DataFrame(self.coefficients)

    def __str__(self) -> str:
        several = bool(self.moderators)
        where = f" where {_list([f'{name} = 0' for name in self.moderators])}" if several else ""
        lines = []
        for each in self.coefficients:
            interval = f"(95 % interval {each.low:.3g} to {each.high:.3g}, p = {each.p_value:.2g})"
            if each.term == "effect":
                lines.append(
                    f"{each.option} instead of {self.control} changes the outcome by "
                    f"{each.estimate:+.3g} {interval}{where}."
                )
            else:
                moderator = each.term.removeprefix("change with ")
                lines.append(
                    f"Each unit of {moderator} changes that effect by {each.estimate:+.3g} "
                    f"{interval}."
                )
        points = plural(self.decision_points, "decision point")
        lines.append(
            f"An average over {points} at which one of {plural(self.persons, 'person')} was "
            f"available, whatever was drawn for them before. Left out: {self.unavailable:,} at "
            f"which nobody was available, {self.missing:,} without an outcome."
        )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            (each.option, each.term, *(f"{number:.4g}" for number in each[2:]))
            for each in self.coefficients
        ]
        headings = ("option", "term", "estimate", "standard error", "low", "high", "p")
        return TextTable.of(headings, rows, title=str(self)).to_html()


def wcls(
    frame: pd.DataFrame,
    *,
    control: str,
    moderators: Sequence[str] = (),
    controls: Sequence[str] = (),
    shares: Mapping[str, float] | None = None,
) -> ExcursionEffect:
    """Weighted and centered least squares: causal excursion effects, with errors by person.

    For person i at decision point t with option A, drawn with probability p, the outcome Y is
    regressed, with weights p̃(A)/p(A), on g = (1, controls, moderators) and, for every option k but
    the control, on (1[A = k] − p̃(k)) · (1, moderators). Centered like this, the effects are right
    even if g is wrong: it only reduces variance. That of the estimates is clustered by person, with
    the correction of Mancl and DeRouen for few persons:

        V = B [ Σᵢ sᵢ sᵢᵀ ] B,   sᵢ = Xᵢᵀ Wᵢ (I − Hᵢ)⁻¹ rᵢ,   Hᵢ = Xᵢ B Xᵢᵀ Wᵢ,   B = (Xᵀ W X)⁻¹

    and intervals take quantiles of t with as many degrees of freedom as there are persons, less the
    coefficients of the regression.

    Persons must be independent. Where probabilities were learnt from the outcomes of all (any
    policy but `"fixed"`), they are not quite: see the guide on mobile health. Not supported:
    options that were added or retired meanwhile, and several assignments per decision point.

    Args:
        frame: the layout `mrt` of an export, read by pandas; a row per person and decision point.
        control: the option that the others are compared with.
        moderators: columns of numbers on which the effect may depend; none for its average.
        controls: further columns of numbers that foretell the outcome.
        shares: p̃, by option: that of the protocol, say. If left out, the share of each option among
            the rows.

    Raises:
        InvalidInputError: the frame lacks something, or cannot tell of the effects.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({
        ...     "person": [n // 4 for n in range(24)], "available": 1, "probability": 0.5,
        ...     "label": ["none", "message"] * 12, "outcome": [n % 2 + n % 3 for n in range(24)],
        ... })
        >>> wcls(frame, control="none").estimates.round(3).tolist()
        [1.0]

    Reference: Boruvka, Almirall, Witkiewitz and Murphy (2018), eq. 8; Liao, Klasnja, Tewari and
    Murphy (2016) and Mancl and DeRouen (2001) for few persons; Qian et al. (2022) for a tutorial.
    """
    rows, unavailable, missing = _usable(frame, [*moderators, *controls])
    labels = list(dict.fromkeys(rows["label"]))
    choice(control, labels, "control")
    options = tuple(sorted(str(label) for label in labels if label != control))
    if not options:
        message = f"Only {control!r} was drawn: there is nothing to compare."
        raise InvalidInputError(message, field="frame", value=control)
    drawn = np.array([(rows["label"] == label) for label in (control, *options)], dtype=float)
    share = _shares(shares, (control, *options), drawn)
    probability = rows["probability"].to_numpy(dtype=float)
    weights = share @ drawn / probability

    effect = np.column_stack([np.ones(len(rows)), *(_numbers(rows, name) for name in moderators)])
    further = [name for name in dict.fromkeys(controls) if name not in moderators]
    known = np.column_stack([effect, *(_numbers(rows, name) for name in further)])
    treated = [(row - p)[:, None] * effect for row, p in zip(drawn[1:], share[1:], strict=True)]
    root = np.sqrt(weights)
    design = np.column_stack([known, *treated]) * root[:, None]
    outcome = rows["outcome"].to_numpy(dtype=float) * root

    persons, person = np.unique(rows["person"].astype(str), return_inverse=True)
    freedom = len(persons) - design.shape[1]
    if freedom < 1:
        message = (
            f"{plural(len(persons), 'person')} cannot tell of the {design.shape[1]} coefficients "
            "of the regression."
        )
        remedy = "Take fewer moderators and controls."
        raise InvalidInputError(message, field="frame", value=len(persons), remedy=remedy)
    if np.linalg.matrix_rank(design) < design.shape[1]:
        message = "Some columns of the regression can be computed from the others."
        remedy = "Leave out moderators and controls that never change, or that repeat others."
        raise InvalidInputError(message, field="moderators", value=list(moderators), remedy=remedy)
    fit, variance = _least_squares(design, outcome, person)
    place = slice(known.shape[1], None)
    return ExcursionEffect(
        control=control,
        options=options,
        moderators=tuple(moderators),
        estimates=fit[place],
        covariance=variance[place, place],
        shares=dict(zip((control, *options), share.tolist(), strict=True)),
        persons=len(persons),
        decision_points=len(rows),
        unavailable=unavailable,
        missing=missing,
        degrees_of_freedom=freedom,
        largest_weight=float(weights.max()),
    )


def _least_squares(design: Array, outcome: Array, person: NDArray[np.intp]) -> tuple[Array, Array]:
    """The coefficients, and their variance by person with Mancl and DeRouen's correction.

    Weights are in the rows already. As Xᵢᵀ (I − Xᵢ B Xᵢᵀ)⁻¹ = (I − Xᵢᵀ Xᵢ B)⁻¹ Xᵢᵀ, no matrix is
    larger than the number of coefficients.
    """
    bread = np.linalg.inv(design.T @ design)
    fit = bread @ (design.T @ outcome)
    residuals = outcome - design @ fit
    scores = []
    for number in range(person.max() + 1):
        own = design[person == number]
        gram = own.T @ own @ bread
        if np.linalg.eigvals(gram).real.max() > 1 - _OWN:
            message = "Some coefficient rests on one person alone, so its error cannot be known."
            remedy = "Leave out moderators and controls that only one person varies in."
            raise InvalidInputError(message, field="moderators", remedy=remedy)
        score = own.T @ residuals[person == number]
        scores.append(np.linalg.solve(np.eye(len(bread)) - gram, score))
    meat = np.array(scores)
    return fit, bread @ (meat.T @ meat) @ bread


def _usable(frame: Any, columns: Sequence[str]) -> tuple[pd.DataFrame, int, int]:
    """The rows with a draw and an outcome; how many were unavailable, and how many lack one."""
    if not hasattr(frame, "columns"):
        message = f"`frame` must be a data frame; got {type(frame).__name__}."
        remedy = 'For example pandas.read_csv("walks.csv"), of an export in the layout mrt.'
        raise InvalidInputError(message, field="frame", value=type(frame).__name__, remedy=remedy)
    for name in (*_NEEDED, *columns):
        if name not in frame.columns:
            message = f"The frame has no column {name!r}."
            remedy = 'Export it with layout="mrt", from an experiment that was asked by unit.'
            if name in columns:
                remedy = f"Its columns are {', '.join(map(str, frame.columns))}."
            raise InvalidInputError(message, field="frame", value=name, remedy=remedy)
    available = frame["available"] == 1
    rows = frame[available & frame["person"].notna() & frame["outcome"].notna()]
    certain = rows["probability"] >= 1
    if certain.any() or not (rows["probability"] > 0).all():
        message = "At some decision points the option was certain, or its probability is unknown."
        remedy = "Leave these rows out: without a draw by chance they tell of no effect."
        raise InvalidInputError(
            message, field="probability", value=int(certain.sum()), remedy=remedy
        )
    every = [name for name in rows.columns if str(name).startswith("probability_")]
    if (rows[every] == 0).any(axis=None):
        message = "At some decision points an option could not be drawn: it was added or retired."
        remedy = "Keep the rows at which all options that you compare could be drawn."
        raise InvalidInputError(message, field="probability", value=every, remedy=remedy)
    if "decision_point" in rows and rows.duplicated(["person", "decision_point"]).any():
        message = "A person has several rows at one decision point."
        remedy = "Experiments that draw several options at a time cannot be analysed like this."
        raise InvalidInputError(message, field="decision_point", remedy=remedy)
    unavailable = int((~available).sum())
    return rows, unavailable, len(frame) - unavailable - len(rows)


def _numbers(rows: pd.DataFrame, name: str) -> Array:
    """A column of numbers; raise if it has texts, or holes."""
    try:
        values = rows[name].to_numpy(dtype=float)
    except (TypeError, ValueError):
        message = f"The column {name!r} holds texts."
        remedy = f'Make a column per category, as frame["{name}"] == "home", and take these.'
        raise InvalidInputError(message, field="moderators", value=name, remedy=remedy) from None
    if holes := int((~np.isfinite(values)).sum()):
        message = f"The column {name!r} is not known at {plural(holes, 'decision point')}."
        remedy = "Fill it with a value that does not depend on the outcome, or leave rows out."
        raise InvalidInputError(message, field="moderators", value=name, remedy=remedy)
    return values


def _shares(given: object, options: Sequence[str], drawn: Array) -> Array:
    """p̃ of the control and of each option."""
    if given is None:
        return np.asarray(drawn.mean(axis=1))
    if not isinstance(given, Mapping) or set(given) != set(options):
        message = f"`shares` must have one for each of {', '.join(options)}; got {given!r}."
        raise InvalidInputError(message, field="shares", value=given)
    shares = np.array([positive(given[option], "shares") for option in options])
    if abs(shares.sum() - 1) > 1e-9:
        message = f"`shares` must sum to 1; they sum to {shares.sum():g}."
        raise InvalidInputError(message, field="shares", value=given)
    return shares


def _list(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
