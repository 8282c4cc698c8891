"""Experiment: ask for a policy's pulls one batch at a time, and tell the outcomes as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from bestarm.checks import whole
from bestarm.errors import BestArmError, InvalidInputError
from bestarm.forecasting import Forecaster
from bestarm.live import inputs, rules
from bestarm.live.draws import MOST, read_seed
from bestarm.live.events import log, sha256
from bestarm.live.forecasts import Covariates, kind_of, make_forecasts, read_known
from bestarm.live.outcomes import fail
from bestarm.live.spec import Spec, check_first, make_spec
from bestarm.live.store.memory import MemoryLedger
from bestarm.live.values import Assignment, Batch, Listed, Receipt
from bestarm.live.writer import Writer
from bestarm.policies.policy import Policy
from bestarm.problem import Problem

if TYPE_CHECKING:
    import pandas as pd

    from bestarm.live.store.sql import SqlLedger, Store


class Experiment(Writer):
    """Ask for assignments, carry them out, tell their outcomes: in any order, any number at a time.

    The arm of an assignment is drawn when it is asked for, after the plan is fixed, and is never
    drawn again: that is what makes the method valid under a moving baseline. A phase closes when
    each of its assignments is answered. Neither the order in which outcomes arrive nor the sizes of
    the batches asked for change any later plan or the recommendation by a single bit.

    An open plan never makes anybody wait: while its last outcomes are awaited, further assignments
    are drawn under it. It closes as soon as its share is answered without a gap, with all that
    follows without a gap; assignments beyond count once they are answered too. How many those are,
    and with them later plans, then depends on when outcomes arrive::

        experiment = Experiment(policy, seed=7)
        while not experiment.finished:
            for assignment in experiment.ask(100):
                experiment.tell(assignment.id, measure(assignment.label))
        print(experiment.recommendation())

    Made like this it is held in memory, and any number of threads may ask and tell. With `create`
    and `open` it is kept in a database, and any number of processes may.

    Should the policy fail while a phase closes, its exception passes through `tell` and every
    outcome told is kept: the next `ask`, or telling any outcome again, tries once more.

    Args:
        policy: a policy that has not been told any outcome yet.
        seed: fixes the draws, so that they can be repeated; random if left out. From it and an
            assignment's id `bestarm.live.draw` recomputes the draw.
        lease: how long after it is asked for an assignment without an outcome is lost, in seconds
            or as a text like "90s", "30m", "2h" or "1d": another is drawn in its place, and an
            outcome that comes later is kept but not used. None means no limit.
        clock: returns the time, in seconds since 1970 or in simulated time; if left out, the clock
            of this process.
        forecaster: makes a forecast of every outcome before its arm is drawn, which is subtracted
            from it: `"default"`, a `Forecaster` of your own, or `"own"` where every `ask` brings
            `forecasts`. The policy must be made for it, as `AnytimeBAI(…, forecasts=True)` is.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        seed: int | None = None,
        lease: float | str | None = None,
        clock: Callable[[], float] | None = None,
        forecaster: Forecaster | str | None = None,
    ) -> None:
        if isinstance(policy, type) or not isinstance(policy, Policy):
            raise InvalidInputError(
                f"`policy` must be a policy made for a problem; got {policy!r}.",
                field="policy",
                value=policy,
                remedy="Make one first, for example `SPBAI(problem)`.",
            )
        ledger = MemoryLedger()
        forecasts = make_forecasts(kind_of(forecaster), forecaster, policy.problem.source, None)
        super().__init__(ledger, policy, seed=read_seed(seed), clock=clock, forecasts=forecasts)
        with ledger.writing() as tx:
            tx.head, created = rules.begin(
                self._now(tx), lease=inputs.read_lease(lease), seed=self.seed
            )
            tx.add_event(created)
        self._advance(self._head())
        with self.read() as books:
            plan = next(books.plans(), None)
        check_first(None if plan is None else plan.plan, forecasts is not None, by_plan=True)
        if self.phase > 1:
            raise InvalidInputError(
                f"`policy` is already in phase {self.phase}.",
                field="policy",
                value=policy,
                remedy="Start from a new policy: numbers drawn before must not be used again.",
            )

    @classmethod
    def _stored(
        cls,
        ledger: SqlLedger,
        spec: Spec,
        clock: Callable[[], float] | None,
        forecaster: Forecaster | str | None,
    ) -> Experiment:
        made, source = cls.__new__(cls), spec.problem.source
        forecasts = make_forecasts(spec.forecaster, forecaster, source, spec.interval)
        Writer.__init__(made, ledger, spec, seed=spec.seed, clock=clock, forecasts=forecasts)
        made.place, made.name, made.description = ledger.place, ledger.name, ledger.description
        return made

    @classmethod
    def create(
        cls,
        url: str | Store,
        name: str,
        problem: Problem,
        *,
        policy: str = "anytime",
        options: Mapping[str, object] | None = None,
        seed: int | None = None,
        lease: float | str | None = None,
        description: str = "",
        clock: Callable[[], float] | None = None,
        forecaster: Forecaster | str | None = None,
    ) -> Experiment:
        """Begin an experiment that is kept in a database.

        Args:
            url: the database: `sqlite:///store.db` for a file, or `postgresql://user@host/name`; or
                a `Store`, which experiments then share.
            name: the experiment's name there.
            problem: what is to be found out.
            policy: a policy's name, or your own as `module:attribute`.
            options: what the policy is made with: numbers, texts, and lists of them.
            seed: fixes the draws, and the policy's own; random if left out. Whoever knows it can
                foresee the draws.
            lease: how long an outcome may take before it is lost, in seconds or as a text like
                "2h"; None means no limit.
            description: what it is about, in words.
            clock: returns the time, in seconds since 1970; if left out, the clock of a PostgreSQL
                database itself, and with SQLite that of this process.
            forecaster: makes forecasts that are subtracted from outcomes, for any policy:
                `"default"`, or a `Forecaster` of your own, which `open` must be given again, or
                `"own"` where every `ask` brings `forecasts`.

        Raises:
            ClockError: the clock shows a time that cannot be.
            ExperimentExistsError: there is one of this name.
            StoreUnavailableError: the database cannot be reached or written to.
            StoreVersionError: its tables are of another version of bestarm.
        """
        kind = kind_of(forecaster)
        spec = make_spec(problem, policy, options, read_seed(seed), forecaster=kind)
        texts = {"document": spec.to_json(), "description": inputs.clean_text(description)}
        hashes = {key: sha256(text) for key, text in texts.items()}
        title = inputs.check_name(name)
        seconds = inputs.read_lease(lease)
        with inputs.connected(url) as (store, ledgers):
            now = inputs.read_time(store.now() if clock is None else clock(), stored=True)
            head, created = rules.begin(now, lease=seconds, seed=spec.seed, name=title, **hashes)
            ledger = ledgers.create(store, title, head=head, created=created, **texts)
            experiment = cls._stored(ledger, spec, clock, forecaster)
            experiment._advance(experiment._head())
        return experiment

    @classmethod
    def open(
        cls,
        url: str | Store,
        name: str,
        *,
        clock: Callable[[], float] | None = None,
        forecaster: Forecaster | None = None,
    ) -> Experiment:
        """Continue an experiment that is kept in a database, from any process.

        A `forecaster` of your own is given again; the default one is made again.

        Raises:
            UnknownExperimentError: there is none of this name.
            StoreUnavailableError: the database cannot be reached.
            StoreVersionError: its tables are of another version of bestarm.
        """
        with inputs.connected(url) as (store, ledgers):
            ledger = ledgers.open(store, inputs.normal_form(inputs.read_label(name, "name")))
            return cls._stored(ledger, Spec.from_json(ledger.document), clock, forecaster)

    @staticmethod
    def list(
        url: str | Store, *, limit: int | None = None, after: str | None = None
    ) -> Sequence[Listed]:
        """The experiments of a database, oldest first.

        Args:
            url: the database.
            limit: the largest number to return; all of them by default.
            after: the name of the last one before these, to read them in parts.

        Raises:
            UnknownExperimentError: there is no experiment `after`.
            StoreVersionError: its tables are of another version of bestarm.
        """
        most = None if limit is None else whole(limit, "limit", least=1)
        with inputs.connected(url) as (store, ledgers):
            found = ledgers.list(store, limit=most, after=after)
            if store is not url:
                store.close()
        return found

    def ask(
        self,
        count: int = 1,
        *,
        request_id: str | None = None,
        covariates: Covariates | pd.DataFrame | None = None,
        forecasts: Iterable[float] | float | None = None,
    ) -> Batch:
        """Make up to `count` assignments of the open phase; fewer where its plan ends.

        Where the policy draws blocks, these are rounds of several assignments each: see
        `Batch.blocks`.

        Args:
            count: how many are wanted.
            request_id: a name for this request: asking again under it, after an answer that got
                lost on its way, returns the same assignments and no others.
            covariates: what the forecaster may know of each assignment: one row each, a mapping of
                names to numbers, texts or truth values, or a list of numbers; or a data frame.
                Where fewer are assigned, the first rows are used.
            forecasts: your own forecast of each outcome, where the experiment takes them.
        """
        count = whole(count, "count", least=1, below=MOST + 1)
        known = read_known(self._forecasts, covariates, forecasts, count)
        foresee = None if self._forecasts is None else self._forecasts.maker(known, self.read)
        name = None if request_id is None else inputs.read_label(request_id, "request_id")
        return self._ask_one((count, name), foresee)

    def tell(self, id: int | Assignment, reward: float) -> Receipt:  # noqa: A002  (the field's name)
        """Record the outcome of one assignment. Telling the same outcome again is harmless.

        Args:
            id: the assignment, or its id.
            reward: a number; True and False are 1 and 0.

        Raises:
            UnknownAssignmentError: there is no assignment of this id.
            ConflictingOutcomeError: another reward was told for it before.
            InvalidInputError: the reward is not a finite number, or outside the policy's bounds.
        """
        return self._tell_one(inputs.read_outcome(id, reward))

    def tell_many(self, outcomes: inputs.Outcomes | pd.DataFrame) -> Receipt:
        """Record outcomes: all of them or, on an error, none.

        Raises what `tell` raises.

        Args:
            outcomes: a mapping from id, or assignment, to reward; pairs of them; or a data frame
                with the columns `id` and `reward`.
        """
        return self._tell_one(inputs.read_outcomes(outcomes))

    def tell_each(
        self,
        several: Sequence[inputs.Outcomes],
        *,
        when_due: Callable[[], object] | None = None,
    ) -> tuple[Receipt | BestArmError, ...]:
        """Record several batches of outcomes at once: each of them whole or, on an error, not.

        Where many programs tell a few outcomes each, this is much faster than one after the other,
        as one write brings all of them to disk. Returns a receipt for each batch, or the error that
        `tell_many` would have raised.

        Args:
            several: the batches, each as for `tell_many`.
            when_due: called in place of `advance` if something is due, so that it can be done after
                those who told are answered.
        """
        batches, answers = {}, dict[int, Receipt | BestArmError]()
        for place, outcomes in enumerate(several):
            try:
                batches[place] = inputs.read_outcomes(outcomes)
            except BestArmError as error:
                answers[place] = error
        if batches:
            told = self._tell(list(batches.values()), when_due=when_due)
            answers |= dict(zip(batches, told, strict=True))
        return tuple(answers[place] for place in range(len(several)))

    def advance(self) -> bool:
        """Close the phase that is due and plan the next, and return whether more is due by then.

        Every call that writes does so as often as is needed, unless told otherwise.
        """
        return self._advance_once(self._head())

    def fail(self, id: int | Assignment, reason: str = "failed") -> None:  # noqa: A002
        """Record that the outcome of an assignment will never come. Repeating it is harmless.

        Under a closed plan another assignment is drawn in its place. Under an open plan the policy
        leaves it out or assumes the worst, as its option `missing` says.

        Raises:
            UnknownAssignmentError: there is no assignment of this id.
            ConflictingOutcomeError: an outcome was told for it before.
        """
        self.fail_many([id], reason)

    def fail_many(self, ids: Iterable[int | Assignment], reason: str = "failed") -> None:
        """Record that the outcomes of these assignments will never come: all or, on an error, none.

        Raises what `fail` raises.
        """
        numbers = inputs.read_ids(ids)
        with self._advancing() as (tx, now):
            fail(tx, numbers, reason=inputs.clean_text(reason), now=now)

    def expire(self) -> bool:
        """Give up overdue outcomes, and return whether there were any. `ask` and `tell` do it too.

        As long as nothing is overdue it only reads.
        """
        with self.read() as books:
            if not books.head.due and not rules.overdue(books.head, self._now(books)):
                return False
        with self._advancing() as (tx, now):
            before = tx.head.losses
            rules.expire(tx, now)
            return tx.head.losses > before

    def pause(self) -> None:
        """Make no assignments until `resume`. Outcomes are still recorded, and leases go on."""
        self._change("paused")

    def resume(self) -> None:
        """Continue after `pause`."""
        self._change("resumed")

    def stop(self, reason: str = "") -> None:
        """End it for good. Outcomes that come later are kept and flagged, and not used."""
        self._change("stopped", reason=inputs.clean_text(reason))

    def _change(self, kind: str, **data: str) -> None:
        with self._advancing(leaps=True) as (tx, now):
            rules.change_state(tx, kind, now, **data)

    def note(self, text: str, **numbers: int) -> None:
        """Add a remark to the log, with numbers to read back from `events`. Nothing else changes.

        The event is `"noted"`, and its data are the numbers and the `text`.
        """
        with self._advancing(leaps=True) as (tx, now):
            log(tx, "noted", now, **numbers, text=inputs.clean_text(text))

    def change_lease(self, lease: float | str | None) -> None:
        """Set how long outcomes may take from now on; what is lost already stays lost.

        Raises:
            InvalidInputError: this is not a length of time, or the experiment is over.
        """
        seconds = inputs.read_lease(lease)
        with self._advancing(leaps=True) as (tx, now):
            rules.change_lease(tx, seconds, now)

    def close(self) -> None:
        """Release the database, if there is one."""
        self._ledger.close()

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return f"<Experiment{name}: {self.status()}>"  # without the seed: it may end up in a log
