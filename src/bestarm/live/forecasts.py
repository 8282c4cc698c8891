"""Forecasts of live experiments: fixed before the arm is drawn, and stored with the assignment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from threading import Lock
from typing import Any

import numpy as np

from bestarm.checks import finite
from bestarm.errors import BestArmError, InvalidInputError
from bestarm.forecasting import Encoder, Forecaster
from bestarm.forecasting.forecaster import find_forecaster
from bestarm.live.inputs import EARLIEST, normal_form
from bestarm.live.spec import Spec
from bestarm.live.store.ledger import Snapshot
from bestarm.live.store.rows import UNREADABLE, Ids, Rows, UnitRecord, canonical, damaged
from bestarm.numerics.geometry import Array
from bestarm.records import Plan

Row = Mapping[str, Any]
#: Rows of covariates: names with values, or numbers alone.
Covariates = Row | Iterable[Row] | Iterable[Sequence[float]]
Interval = tuple[float, float] | None

_LATEST = 100_000  # assignments that a forecaster learns when an experiment is opened again
_LOOKUP_RATIO = 16  # outstanding outcomes per outcome that others told, before they are looked up
_LONGEST = 10_000  # characters of one row of covariates


def read_covariates(covariates: object, count: int) -> list[Row] | None:
    """One row of covariates per assignment, or per round."""
    if covariates is None:
        return None
    return [_covariates(row) for row in _items(_rows(covariates), "covariates", "row", count)]


def read_forecasts(forecasts: object, count: int) -> Array | None:
    """One forecast of the caller's own per assignment, or per round."""
    if forecasts is None:
        return None
    several = _items(
        [forecasts] if isinstance(forecasts, Real) else forecasts, "forecasts", "number", count
    )
    return np.array([_number(each, "forecasts") for each in several], dtype=float)


def check_given(forecasts: Forecasts | None, own: Array | None) -> None:
    """Raise InvalidInputError unless an `ask` brings its own forecasts where they are wanted."""
    if forecasts is not None:
        forecasts.check_given(own)
    elif own is not None:
        message = "This experiment has no forecaster: `forecasts` cannot be used."
        remedy = "Create one with forecaster='own' for forecasts of your own."
        raise InvalidInputError(message, field="forecasts", value=own, remedy=remedy)


def _rows(covariates: Any) -> Any:
    if isinstance(covariates, Mapping):
        return [covariates]
    if hasattr(covariates, "columns"):  # a data frame
        return covariates.astype(object).where(covariates.notna(), None).to_dict("records")
    return covariates


def _items(several: Any, field: str, what: str, count: int | None) -> list[Any]:
    """The items of a list or an array, and of nothing that only looks like one."""
    try:
        items = None if isinstance(several, (str, bytes, Mapping)) else list(several)
    except TypeError:  # a single number, also as an array without dimensions
        items = None
    if items is not None and count in {None, len(items)}:
        return items
    got = several if items is None else len(items)
    wanted = "" if count is None else f", {count} in all"
    message = f"`{field}` must hold one {what} per assignment asked for{wanted}; got {got!r}."
    remedy = "Give as many as are asked for."
    if what == "row":
        remedy = "A row is a mapping of names to values, or a list of numbers."
    raise InvalidInputError(message, field=field, value=got, remedy=remedy)


def _covariates(row: Any) -> Row:
    if not isinstance(row, Mapping):
        values = _items(row, "covariates", "row", None)
        row = {f"x{place}": value for place, value in enumerate(values, 1)}
    read = {normal_form(str(name)): _value(name, value) for name, value in row.items()}
    if len(canonical(read)) > _LONGEST:
        message = f"A row of `covariates` is longer than {_LONGEST:,} characters."
        remedy = "Give what may foretell the outcome, and leave out texts."
        raise InvalidInputError(message, field="covariates", value=sorted(read)[:10], remedy=remedy)
    return read


def _value(name: object, value: Any) -> float | str | bool | None:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, str):
        return normal_form(value)
    if value is None or isinstance(value, bool):
        return value
    return _number(value, f"covariates[{name!r}]")


def _number(value: object, field: str) -> float:
    try:
        return finite(value, field)
    except InvalidInputError as error:
        remedy = "Leave out what is not known."
        if field == "forecasts":
            remedy = "Without a better forecast, give the mean of the outcomes so far."
        raise InvalidInputError(error.message, field=field, value=value, remedy=remedy) from None


def kind_of(forecaster: object) -> str | None:
    """How a record names a forecaster: None, `"default"`, or `"own"` for one's own.

    Raises:
        InvalidInputError: it is none of these.
    """
    if forecaster == "own" or isinstance(forecaster, Forecaster):
        return "own"
    if isinstance(forecaster, str) and forecaster != "default":
        message = f"`forecaster` must be 'default' or 'own'; got {forecaster!r}."
        remedy = "With 'own' every `ask` brings its forecasts; leave it out for none."
        raise InvalidInputError(message, field="forecaster", value=forecaster, remedy=remedy)
    return None if find_forecaster(forecaster) is None else "default"


def make_forecasts(forecaster: object, spec: Spec | None) -> Forecasts | None:
    """The forecasts of an experiment, which was created with a spec, or is in memory; or None.

    Raises:
        InvalidInputError: it was created with another kind of forecaster.
    """
    given = kind_of(forecaster)
    kind, interval = (given, None) if spec is None else (spec.forecaster, spec.interval)
    if forecaster is not None and given != kind:
        message = f"The experiment was created with forecaster={kind!r}; got {forecaster!r}."
        remedy = "What is subtracted from outcomes is settled at creation: create another."
        raise InvalidInputError(message, field="forecaster", value=forecaster, remedy=remedy)
    if kind is None:
        return None
    own = forecaster if isinstance(forecaster, Forecaster) else None
    return Forecasts(own if kind == "own" else find_forecaster(kind), interval)


class Forecasts:
    """Makes forecasts at the draw, and lets the forecaster learn from outcomes as they come.

    Every process has a forecaster of its own, which learns all outcomes that it sees; forecasts
    therefore differ a little between processes. As they are stored, nothing is computed again.

    There is no forecaster where every `ask` brings its own forecasts. These must lie in the
    interval, for plans that do not say where.
    """

    def __init__(self, forecaster: Forecaster | None, interval: Interval) -> None:
        self._forecaster, self._interval = forecaster, interval
        self._features: Array = np.empty((0, 0))  # of the arms, as the last snapshot had them
        self._encoder = Encoder()
        self._lock = Lock()
        self._is_ready = False
        # Assignments with ids below this have their forecast here, as far as is needed.
        self._end = 0
        self._seen = 0  # outcomes told in time that were learned here, or passed over
        self._waiting: dict[int, int] = {}  # arms of assignments whose outcome is to be learned

    def check_given(self, own: Array | None) -> None:
        """Raise unless an `ask` brings its own forecasts, or none where there is a forecaster."""
        if self._forecaster is not None and own is not None:
            message = "This experiment has a forecaster, so `forecasts` cannot be given."
            remedy = "Give `covariates`, or create an experiment with forecaster='own'."
            value = own.tolist()
            raise InvalidInputError(message, field="forecasts", value=value, remedy=remedy)
        if self._forecaster is None and own is None:
            raise InvalidInputError(
                "The forecasts of this experiment are your own, and there are none here.",
                field="forecasts",
                remedy="Give `ask` the `forecasts`, or open the experiment with your forecaster: "
                "`Experiment.open(…, forecaster=…)`.",
            )

    @property
    def is_ready(self) -> bool:
        """Whether what was on record at the start is learned."""
        return self._forecaster is None or self._is_ready

    def begin(self, snapshot: Snapshot, features: Array) -> None:
        """Learn what is on record, before anybody has to wait for it.

        Args:
            snapshot: the record.
            features: of the arms, as they are in it.
        """
        with self._lock:
            if self._forecaster is not None and not self._is_ready:
                self._catch_up(snapshot, features)
                self._is_ready = True

    def make(
        self,
        snapshot: Snapshot,
        plan: Plan,
        features: Array,
        covariates: Sequence[Row] | None,
        own: Array | None,
        places: Sequence[int],
        now: float,
    ) -> Array:
        """The forecasts of the next assignments, before any is drawn.

        Args:
            snapshot: the record.
            plan: under which they are drawn.
            features: of the arms, as they are in the record.
            covariates: of the rounds that were asked for.
            own: forecasts of the caller's, one per round.
            places: those of the next assignments among the rounds that were asked for.
            now: the time.
        """
        if self._forecaster is None:
            assert own is not None
            made = own[places]
        else:
            with self._lock:
                self._catch_up(snapshot, features)
                first, moment = snapshot.head.assigned, _moment(now)
                vectors = [
                    None if covariates is None else self._encoder.encode(covariates[place])
                    for place in places
                ]
                forecast, pairs = self._forecaster.forecast, enumerate(vectors, first)
                made = np.array([forecast(number, moment, vector) for number, vector in pairs])
        if np.isnan(made).any():
            message = "The forecaster made a forecast that is not a number."
            remedy = "Nothing was assigned. Check it with `bestarm.testing.check_forecaster`."
            value = self._forecaster
            raise InvalidInputError(message, field="forecaster", value=value, remedy=remedy)
        interval = plan.forecasts or self._interval
        assert interval is not None
        return np.asarray(np.clip(made, *interval) + 0.0)

    def drawn(self, ids: Sequence[int], arms: Ids) -> None:
        """Note the arms that were drawn, so that their outcomes can be learned.

        Within the transaction, so that no other thread takes them for those of another process.
        """
        if self._forecaster is not None and ids:
            with self._lock:
                self._end = ids[-1] + 1
                self._wait(zip(ids, arms.tolist(), strict=True))

    def learn(self, ids: Sequence[int], rewards: Sequence[float]) -> None:
        """Learn outcomes that were told in time, as far as they are of draws known here."""
        if self._forecaster is not None:
            with self._lock:
                for number, reward in sorted(zip(ids, rewards, strict=True)):
                    self._learn(number, reward)

    def _learn(self, number: int, reward: float) -> None:
        arm = self._waiting.pop(number, None)
        if arm is not None and self._forecaster is not None:
            self._forecaster.learn(number, self._features[arm], reward)
            self._seen += 1

    def _wait(self, several: Any) -> None:
        self._waiting.update(several)
        while len(self._waiting) > _LATEST:
            del self._waiting[next(iter(self._waiting))]

    def _catch_up(self, snapshot: Snapshot, features: Array) -> None:
        """Learn what others did: their assignments, and the outcomes told to them."""
        head, self._features = snapshot.head, features
        if head.assigned > self._end:
            first = max(self._end, head.assigned - _LATEST)
            for rows in snapshot.rows(first, head.assigned):
                self._seen += self._follow(rows, snapshot)
            if not self._is_ready:
                self._seen = head.outcomes
        self._end = head.assigned
        behind = abs(head.outcomes - self._seen)
        if behind and _LOOKUP_RATIO * behind >= len(self._waiting):
            rows = snapshot.rows_of(np.fromiter(self._waiting, dtype=np.int64))
            for row in rows[_used(rows)]:
                self._learn(int(row["id"]), float(row["reward"]))
            for number in rows["id"][~np.isnan(rows["lost"])].tolist():
                self._waiting.pop(number, None)
            self._seen = head.outcomes

    def _follow(self, rows: Rows, snapshot: Snapshot) -> int:
        """Learn assignments of others in their order; return how many have an outcome.

        Those of which everything is erased are left out.
        """
        assert self._forecaster is not None
        total = int(_used(rows).sum())
        records = list(snapshot.records(UnitRecord, *_rounds(rows)))
        erased = [each.round for each in records if each.salt is None]
        rows = rows[~np.isin(rows["round"], erased)]
        if not len(rows):
            return total
        texts = {each.first: each.covariates for each in records if each.covariates is not None}
        told, known = _used(rows), np.array([number in texts for number in rows["id"].tolist()])
        breaks = np.diff(rows["id"]) != 1
        breaks |= (np.diff(told.astype(int)) != 0) | (np.diff(known.astype(int)) != 0)
        for part in np.split(np.arange(len(rows)), np.flatnonzero(breaks) + 1):
            run, vectors = rows[part], None
            if known[part[0]]:
                vectors = np.array([self._vector(each, texts[each]) for each in run["id"].tolist()])
            if told[part[0]]:
                moments = run["asked"] if run["asked"].min() >= EARLIEST else None
                features = self._features[run["arm"]]
                first = int(run["id"][0])
                self._forecaster.follow(first, moments, vectors, features, run["reward"])
                continue
            for place, row in enumerate(run):
                vector = None if vectors is None else vectors[place]
                self._forecaster.forecast(int(row["id"]), _moment(float(row["asked"])), vector)
            self._wait(zip(run["id"].tolist(), run["arm"].tolist(), strict=True))
        return total

    def _vector(self, number: int, text: str) -> Array:
        """What is on record of an assignment, as the forecaster has it."""
        try:
            return self._encoder.encode(json.loads(text))
        except (BestArmError, *UNREADABLE) as error:
            what = f"The covariates of assignment {number} cannot be read ({error})."
            raise damaged(what, number) from None


def _rounds(rows: Rows) -> tuple[int, int]:
    """The first round of rows, and the one after the last."""
    return (int(rows["round"][0]), int(rows["round"][-1]) + 1) if len(rows) else (0, 0)


def _used(rows: Rows) -> Any:
    """Which assignments have an outcome that came in time."""
    return ~np.isnan(rows["reward"]) & ~rows["late"] & np.isnan(rows["lost"])


def _moment(now: float) -> float | None:
    """A time that is a date; None for simulated times."""
    return now if now >= EARLIEST else None
