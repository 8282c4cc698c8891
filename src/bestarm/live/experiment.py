"""Experiment: ask for a policy's pulls one batch at a time, and tell the outcomes as they come."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from bestarm.checks import whole
from bestarm.errors import (
    ClockError,
    InvalidInputError,
    UnknownAssignmentError,
)
from bestarm.forecasting import Forecaster
from bestarm.live import ask, change, inputs, state, tell, units
from bestarm.live.ask import Ask, StepPendingError
from bestarm.live.core import ExperimentCore
from bestarm.live.draws import read_seed
from bestarm.live.events import log, recommendation_data, sha256
from bestarm.live.forecasts import Covariates, check_given, kind_of
from bestarm.live.guarding import check_guardrails
from bestarm.live.inputs import Label
from bestarm.live.reading import ExperimentReader
from bestarm.live.replay import PolicyReplayer
from bestarm.live.spec import (
    Spec,
    as_options,
    check_first,
    check_scale,
    make_spec,
    policy_for,
    read_policy_options,
)
from bestarm.live.state import Precondition
from bestarm.live.store.contract import Snapshot, UnitKey
from bestarm.live.store.memory import MemoryLedger
from bestarm.live.tell import Outcomes
from bestarm.live.values import (
    Assignment,
    Batch,
    ExperimentListing,
    Receipt,
)
from bestarm.policies.policy import Policy
from bestarm.problem import Problem

if TYPE_CHECKING:
    import pandas as pd

    from bestarm.live.store.sql import SqlLedger, Store

T = TypeVar("T")
_log = logging.getLogger(__name__)
Guardrails = Mapping[str, Mapping[str, object]]
_GUESSABLE = 64  # bits: a random seed has 128
_STEP_WAIT = 0.05  # seconds until an `ask` that waits for another thread's step looks again


class Experiment(ExperimentReader):
    """Ask for assignments, carry them out, tell their outcomes: in any order, any number at a time.

    The arm of an assignment is drawn when it is asked for, after the plan is fixed, and is never
    drawn again: that is what makes the method valid under a moving baseline. A phase closes when
    each of its assignments is answered. Neither the order in which outcomes arrive nor the sizes of
    the batches asked for change any later plan or the recommendation by a single bit.

    An open plan never makes anybody wait: while its last outcomes are awaited, further assignments
    are drawn under it. It closes as soon as its share is answered without a gap, with all that
    follows without a gap; assignments beyond count once they are answered too. How many those are,
    and with them later plans, then depends on when outcomes arrive::

        experiment = Experiment(["old", "new", "video"], bounds=(0, 1))
        while not experiment.finished:
            for assignment in experiment.ask(100):
                experiment.tell(assignment.id, measure(assignment.label))
        print(experiment.recommendation())

    Made like this it is held in memory, and any number of threads may ask and tell; a forked
    process must not use it. With `create` and `open` it is kept in a database, and any number of
    processes may.

    Should the policy fail while a phase closes, its exception passes through `tell` and every
    outcome told is kept: the next `ask`, or telling any outcome again, tries once more.

    Args:
        options: what to choose among: names; a `Problem`, where they have features; or another
            policy than the default, `AnytimeBAI`: one that has not been told any outcome yet.
        bounds: the lowest and the highest reward: (0, 1) for no and yes. If there are none, give a
            `Problem` with the `noise`. A policy of your own has its bounds and its control already.
        control: the name of the option that effects are measured against.
        seed: fixes the draws, so that they can be repeated; random if left out. From it and an
            assignment's id `bestarm.live.draw` recomputes the draw.
        lease: how long after it is asked for an assignment without an outcome is lost, in seconds
            or as a text like "90s", "30m", "2h" or "1d": another is drawn in its place, and an
            outcome that comes later is kept but not used. None means no limit.
        window: how long after it is asked for an outcome enters, in seconds or as a text like "7d",
            with the reward that was told last by then. So a conversion can be told at once, and a
            correction within the window. None means that an outcome enters when it is told.
        otherwise: the outcome where nothing was told within the window: 0 for a conversion.
        clock: returns the time, in seconds since 1970 or in simulated time; if left out, the clock
            of this process.
        forecaster: makes a forecast of every outcome before its arm is drawn, which is subtracted
            from it: `"default"`, a `Forecaster` of your own, or `"own"` where every `ask` brings
            `forecasts`. The policy must be made for it, as `AnytimeBAI(…, forecasts=True)` is.
        guardrails: second outcomes in which no option may be worse than the `control` by
            more than a margin: names with what is promised of each, like `{"refund": {"bounds":
            [0, 1], "worse_by": 0.01, "alpha": 0.05, "action": "retire"}}`. Higher is worse, unless
            it has `"worse": "lower"`. The action is `"retire"` or `"alert"`.

    Attributes:
        name: its name in the database; empty in memory.
        description: what it is about, in words.
        place: the URL of its database without the password; None in memory.
        spec: what a stored experiment is made of; None in memory.
        problem: the options with their features; what was added comes last, and what was retired is
            still there.
        seed: the seed of the draws.
        traits: what the policy declares about itself.
    """

    def __init__(
        self,
        options: Iterable[str] | Problem | Policy,
        *,
        bounds: tuple[float, float] | None = None,
        control: str | None = None,
        seed: int | None = None,
        lease: float | str | None = None,
        window: float | str | None = None,
        otherwise: float | None = None,
        clock: Callable[[], float] | None = None,
        forecaster: Forecaster | str | None = None,
        guardrails: Guardrails | None = None,
    ) -> None:
        drawn = read_seed(seed)
        forecasts = kind_of(forecaster) is not None
        policy = policy_for(options, drawn, bounds=bounds, control=control, forecasts=forecasts)
        limits = inputs.read_limits(lease, window, otherwise, policy.traits.bounds)
        rails = check_guardrails(guardrails, policy.problem, policy.traits, policy.plan())
        super().__init__(MemoryLedger(), policy, drawn, clock, forecaster, rails)
        with self._ledger.transaction() as tx:
            tx.head, created = state.begin(self._now(tx), limits, seed=self.seed)
            tx.head.options = self.problem.targets
            tx.add(created)
        self.advance()
        with self.read() as snapshot:
            plan = next(snapshot.plans(), None)
        check_first(None if plan is None else plan.plan, self._forecasts is not None, by_plan=True)
        if self.phase > 1:
            raise InvalidInputError(
                f"The policy is already in phase {self.phase}.",
                field="options",
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
        made = cls.__new__(cls)
        ExperimentCore.__init__(made, ledger, spec, spec.seed, clock, forecaster, spec.guardrails)
        made.place, made.name, made.description = ledger.place, ledger.name, ledger.description
        made._document = ledger.document
        return made

    @classmethod
    def create(
        cls,
        url: str | Store,
        name: str,
        options: Iterable[str] | Problem,
        *,
        bounds: tuple[float, float] | None = None,
        control: str | None = None,
        policy: str = "anytime",
        policy_options: Mapping[str, object] | None = None,
        seed: int | None = None,
        lease: float | str | None = None,
        window: float | str | None = None,
        otherwise: float | None = None,
        description: str = "",
        clock: Callable[[], float] | None = None,
        forecaster: Forecaster | str | None = None,
        guardrails: Guardrails | None = None,
    ) -> Experiment:
        """Begin an experiment that is kept in a database.

        Args:
            url: the database: `sqlite:///store.db` for a file, or `postgresql://user@host/name`; or
                a `Store`, which experiments then share.
            name: the experiment's name there.
            options: what to choose among: names; or a `Problem`, where they have features.
            bounds: the lowest and the highest reward: (0, 1) for no and yes. For policies that have
                the option `bounds`, as "anytime" has; they need it, unless a `Problem` has the
                `noise`. `control` is for those that have this option.
            control: the name of the option that effects are measured against.
            policy: a policy's name, or your own as `module:attribute`, which `open` is to allow.
            policy_options: what else the policy is made with: numbers, texts, and lists or mappings
                of them, as `{"floors": {"old": 0.2}}`. Options can be added and retired later if
                the policy allows for it, unless `{"changes": False}` is among them.
            seed: fixes the draws, and the policy's own; random if left out. Whoever knows or
                guesses it can predict the draws; the log warns of one that was chosen.
            lease: as of an experiment in memory: see `Experiment`. So are `window` and `otherwise`.
            window: how long after it is asked for an outcome enters.
            otherwise: the outcome where nothing was told within the window.
            description: what it is about, in words.
            clock: returns the time, in seconds since 1970; if left out, the clock of a PostgreSQL
                database itself, and with SQLite that of this process.
            forecaster: makes forecasts that are subtracted from outcomes, for any policy:
                `"default"`, or a `Forecaster` of your own, which `open` must be given again, or
                `"own"` where every `ask` brings `forecasts`.
            guardrails: as of an experiment in memory.

        Raises:
            ClockError: the clock shows a time that cannot be.
            ExperimentExistsError: there is one of this name.
            StoreUnavailableError: the database cannot be reached or written to.
            StoreVersionError: its tables are of another version of bestarm.
        """
        inputs.check_clock(clock)
        kind = kind_of(forecaster)
        problem = as_options(options)
        plain = read_policy_options(policy_options, bounds=bounds, control=control)
        spec = make_spec(
            problem, policy, plain, read_seed(seed), forecaster=kind, guardrails=guardrails
        )
        check_scale(policy, plain, declared=isinstance(options, Problem))
        texts = {"document": spec.to_json(), "description": inputs.clean_text(description)}
        known = {"document": texts["document"], "description": sha256(texts["description"])}
        title = inputs.check_name(name)
        limits = inputs.read_limits(lease, window, otherwise, spec.traits.bounds)
        with inputs.connected(url) as (store, ledgers):
            now = inputs.read_time(store.now() if clock is None else clock(), stored=True)
            head, created = state.begin(now, limits, seed=spec.seed, name=title, **known)
            head.options = problem.targets
            ledger = ledgers.create(store, title, head=head, created=created, **texts)
            experiment = cls._stored(ledger, spec, clock, forecaster)
            experiment.advance()
        if spec.seed < 2**_GUESSABLE:
            _log.warning(
                "The seed of %r was chosen. Whoever guesses it can predict the draws: leave it "
                "out, unless an example is to be repeated.",
                title,
            )
        return experiment

    @classmethod
    def open(
        cls,
        url: str | Store,
        name: str,
        *,
        clock: Callable[[], float] | None = None,
        forecaster: Forecaster | None = None,
        allow_modules: Iterable[str] = (),
    ) -> Experiment:
        """Continue an experiment that is kept in a database, from any process.

        A `forecaster` of your own is given again; the default one is made again.

        Args:
            url: the database.
            name: the experiment's name there.
            clock: as for `create`.
            forecaster: your own, if it has one.
            allow_modules: modules that its policy may be imported from, with all that is in them,
                like `["my_rules"]`, if it is one of your own. Importing runs their code, so that
                whoever can write to the database could run it here. Without it the experiment can
                be shown, exported and verified, and continues until its policy is needed.

        Raises:
            UnknownExperimentError: there is none of this name.
            StoreUnavailableError: the database cannot be reached.
            StoreVersionError: its tables are of another version of bestarm.
        """
        allowed = inputs.read_modules(allow_modules)
        with inputs.connected(url) as (store, ledgers):
            ledger = ledgers.open(store, inputs.normal_form(inputs.read_label(name, "name")))
            spec = Spec.from_json(ledger.document, allowed)
            return cls._stored(ledger, spec, clock, forecaster)

    @staticmethod
    def list(
        url: str | Store, *, limit: int | None = None, after: str | None = None
    ) -> Sequence[ExperimentListing]:
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
        if after is not None:
            after = inputs.normal_form(inputs.read_label(after, "after"))
        with inputs.connected(url) as (store, ledgers):
            found = ledgers.list(store, limit=most, after=after)
            if store is not url:
                store.close()
        return found

    def ask(
        self,
        count: int | None = None,
        *,
        unit: Label | Iterable[Label] | None = None,
        decision_point: Label | Iterable[Label] | None = None,
        available: bool = True,
        request_id: str | None = None,
        covariates: Covariates | pd.DataFrame | None = None,
        forecasts: Iterable[float] | float | None = None,
        precondition: Precondition | None = None,
    ) -> Batch:
        """Make up to `count` assignments of the open phase; fewer where its plan ends.

        Where the policy draws blocks, these are rounds of several assignments each: see
        `Batch.blocks`.

        Once the experiment is over, it serves the winner: `count` assignments of the option that
        was shown to be the best; of the control where none was shown to be better; or, without a
        control, of the option that the recommendation names. Their `experiment` is False, they have
        no id, and nothing is recorded of them: telling their outcomes is harmless.

        Args:
            count: how many are wanted; 1 if left out, or one per unit.
            unit: whom or what it is for, like `"visitor-81"`: the same unit gets the same
                assignment again, in every process, and counts once; or several units. A round,
                where the policy draws blocks, is about one unit.
            decision_point: where a unit has several, a text or a number: the same unit and decision
                point get the same assignment again. One for all units, or one for each.
            available: False to record that these units are not available at these decision points:
                nothing is drawn, and the batch is empty. Repeating it is harmless.
            request_id: a name for this request: asking again under it, after an answer that got
                lost on its way, returns the same assignments and no others.
            covariates: what is known of each assignment, or round, before its draw, and is kept
                with it; a forecaster uses it. One row each, a mapping of names to numbers, texts or
                truth values, or a list of numbers; or a data frame. Where fewer are assigned, the
                first rows are used.
            forecasts: your own forecast of each outcome, where the experiment takes them.
            precondition: called with the transaction before anything is recorded; if it raises,
                nothing is. So it is in all methods that take one. It may be called again.

        Raises:
            ConflictingRequestError: the request asked for another number before, or a unit was
                available at this decision point and now is not, or the reverse.
        """
        call = ask.read(
            count,
            unit=unit,
            decision_point=decision_point,
            available=available,
            request_id=request_id,
            covariates=covariates,
            forecasts=forecasts,
            precondition=precondition,
        )
        if call.keys is not None:  # first without waiting for those who write
            with self.read(precondition) as snapshot:
                found = ask.find_rounds(snapshot, call)
                before = ask.repeat(
                    snapshot, call, found, self.options_at(snapshot).problem.source_labels
                )
            if before is not None:
                return before
        if available:
            check_given(self._forecasts, call.forecasts)
            if self._forecasts is not None and not self._forecasts.is_ready:
                with self.read() as snapshot:
                    features = self.options_at(snapshot).problem.source
                    self._forecasts.begin(snapshot, features)
        while self._served is None:
            try:
                batch = self._asks(call)
                if batch or not batch.finished:
                    return batch
                self._served = self._find_served()
            except StepPendingError:
                if not self.advance():
                    with self._stepped:
                        self._stepped.wait(_STEP_WAIT)
                call = call._replace(after_steps=False)
        return self._serve(self._served, call)

    def served(self) -> Assignment | None:
        """What `ask` serves once the experiment is over; None before."""
        if self._served is None and self.finished:
            self._served = self._find_served()
        return None if self._served is None else self._serve(self._served, Ask(1))[0]

    def _find_served(self) -> int:
        with self.read() as snapshot:
            end = state.last_recommendation(snapshot)
        control = self.traits.control
        return ask.served_target(end or recommendation_data(self.recommendation()), control)

    def _serve(self, target: int, call: Ask) -> Batch:
        with self.read(call.precondition) as snapshot:
            return ask.serve(snapshot, call, self.options_at(snapshot).problem, target)

    def tell(
        self,
        id: int | Assignment | None = None,  # noqa: A002  (the field's name)
        reward: float | None = None,
        *,
        unit: Label | None = None,
        decision_point: Label | None = None,
        **guardrails: float,
    ) -> Receipt:
        """Record the outcome of one assignment. Telling the same outcome again is harmless.

        Where outcomes have a window, another reward told within it replaces the one before. Of an
        assignment made after the end nothing is recorded, as the receipt says.

        Args:
            id: the assignment, or its id, which is None for one made after the end.
            reward: a number; True and False are 1 and 0.
            unit: instead of the id, the unit that `ask` was given.
            decision_point: that of the unit, if `ask` was given one.
            guardrails: the values of guardrails by name, like `refund=0`: with the reward, or
                without it, later. A value counts from when it is told, and is never changed; one
                that is never told counts as the value that accuses least.

        Raises:
            UnknownAssignmentError: there is no assignment of this id, or of this unit.
            ConflictingOutcomeError: another reward was told for it before, and there is no window;
                or another value of a guardrail.
            InvalidInputError: the reward is not a finite number, or outside the policy's bounds;
                or so is the value of a guardrail.
        """
        named = tell.name_told(id, unit, decision_point)
        told = {} if reward is None and guardrails else {"reward": reward}
        return self.tell_many([(named, told | guardrails)])

    def tell_many(
        self,
        outcomes: Outcomes | pd.DataFrame,
        *,
        precondition: Precondition | None = None,
    ) -> Receipt:
        """Record outcomes: all of them or, on an error, none.

        Raises what `tell` raises.

        Args:
            outcomes: a mapping from id, or assignment, to reward; pairs of them; or a data frame
                with the columns `id` and `reward`, or `unit` and `reward`, and `decision_point` if
                units have several. Where there are guardrails, names with values take the place of
                a reward, like `{17: {"reward": 1, "refund": 0}}`, and a data frame has a column per
                guardrail. What is not told is left out, or NaN.
            precondition: see `ask`.
        """
        pairs = tell.read_pairs(outcomes, self._guardrail_names)
        named = self.with_ids(pairs, precondition=precondition)
        call = tell.read_told(named, precondition)
        if call.served and not call.ids and not call.values:
            with self.read(precondition) as snapshot:
                tell.check_served(snapshot.head, call.served)
            return Receipt(0, 0, 0, served=call.served)
        answer = self._tells(call)
        if answer.step_pending is not None:
            self.advance()
        return answer.receipt

    def with_ids(
        self, pairs: Sequence[tuple[Any, T]], *, precondition: Precondition | None = None
    ) -> Sequence[tuple[Any, T]]:
        """Pairs with the ids of assignments in place of units.

        After the end it is None for a unit that has none to be told of any more.

        Raises:
            UnknownAssignmentError: a unit has none.
            InvalidInputError: the round of a unit has several assignments.
        """
        if not any(isinstance(named, UnitKey) for named, _ in pairs):
            return pairs
        with self.read(precondition) as snapshot:
            return tell.with_ids(snapshot, pairs)

    def erase(self, unit: Label, *, precondition: Precondition | None = None) -> int:
        """Erase a unit's name, decision points and covariates; return how many of these it had.

        Its assignments and outcomes stay, as every decision rests on them: without the name. The
        log says that it was done, and `verify` still covers everything else. Asked for again, it
        is a new unit. An outstanding assignment stays so, and can be told or given up by its id.

        With SQLite nothing of it is left in the file or its log; on a server, VACUUM the tables.
        Backups and exports are not changed.

        Raises:
            UnknownAssignmentError: the unit has no assignment.
            StoreUnavailableError: it is erased, but other programs keep it in the file's log.
        """
        [key] = inputs.read_keys([unit], [None])
        try:
            # Without a step afterwards: one that fails would keep the name in the file's log.
            with self._ledger.transaction() as tx:
                if precondition is not None:
                    precondition(tx)
                rounds = units.erase(tx, key.unit, self._stamp(tx, leaps=True))
        except UnknownAssignmentError:
            self._ledger.purge()  # which may have failed when it was erased
            raise
        self._ledger.purge()
        return rounds

    def fail(self, id: int | Assignment | None, reason: str = "failed") -> None:  # noqa: A002
        """Record that the outcome of an assignment will never come. Repeating it is harmless.

        Under a closed plan another assignment is drawn in its place. Under an open plan the policy
        leaves it out or assumes the worst, as its option `missing` says.

        Raises:
            UnknownAssignmentError: there is no assignment of this id.
            ConflictingOutcomeError: an outcome was told for it before.
        """
        self.fail_many([id], reason)

    def fail_many(
        self,
        ids: Iterable[int | Assignment | None],
        reason: str = "failed",
        *,
        precondition: Precondition | None = None,
    ) -> None:
        """Record that the outcomes of these assignments will never come: all or, on an error, none.

        Raises what `fail` raises.
        """
        numbers, served = tell.read_ids(ids)
        with self._changing(precondition) as (tx, now):
            tell.check_served(tx.head, served)
            tell.fail(tx, numbers, reason=inputs.clean_text(reason), now=now)

    def expire(self) -> bool:
        """Settle assignments whose lease or window has ended, and return whether there were any.

        `ask` and `tell` do it too. As long as no time is up it only reads.
        """
        with self.read() as snapshot:
            if not snapshot.head.has_pending_step and not tell.overdue(
                snapshot.head, self._now(snapshot)
            ):
                return False
        with self._changing() as (tx, now):
            return tell.expire(tx, now)

    def pause(self, *, precondition: Precondition | None = None) -> None:
        """Make no assignments until `resume`. Leases and windows end, and outcomes are recorded."""
        self._change_state("paused", precondition)

    def resume(self, *, precondition: Precondition | None = None) -> None:
        """Continue after `pause`."""
        self._change_state("resumed", precondition)

    def stop(self, reason: str = "", *, precondition: Precondition | None = None) -> None:
        """End it for good. Outcomes that come later are kept and flagged, and not used.

        Outcomes whose window has ended are used, and may show which option is the best.
        """
        if self.window is not None:
            with suppress(ClockError):  # a wrong clock settles nothing
                self.expire()
        why = inputs.clean_text(reason)
        # A policy of its own: another thread may be taking a step, and is not waited for. In memory
        # steps are transactions, which come one after the other.
        replayer = self._replayer if self.spec is None else PolicyReplayer(self.spec.make)
        with self.read() as snapshot:
            change.recommend_at_stop(replayer, snapshot)  # what takes long, while others write
        with self._changing(precondition, leaps=True) as (tx, now):
            final = change.recommend_at_stop(replayer, tx)
            change.set_state(tx, "stopped", now, reason=why, recommendation=final)

    def _change_state(self, kind: str, precondition: Precondition | None, **data: str) -> None:
        with self._changing(precondition, leaps=True) as (tx, now):
            change.set_state(tx, kind, now, **data)

    def note(self, text: str, **numbers: int) -> None:
        """Add a remark to the log, with numbers to read back from `events`. Nothing else changes.

        The event is `"noted"`, and its data are the numbers and the `text`.
        """
        with self._changing(leaps=True) as (tx, now):
            log(tx, "noted", now, **numbers, text=inputs.clean_text(text))

    def log_news(
        self, find: Callable[[Snapshot, float], Sequence[tuple[str, dict[str, Any]]]]
    ) -> None:
        """Add the events that a function finds to be new, for programs that watch the experiment.

        The function gets the ledger and the time, and returns kinds of events and their data. It is
        called again in the transaction that adds them, so that nobody else has added them.
        """
        with self.read() as snapshot:
            if not find(snapshot, self._now(snapshot)):
                return
        with self._changing() as (tx, now):
            for kind, data in find(tx, now):
                log(tx, kind, now, **data)

    def change_lease(
        self, lease: float | str | None, *, precondition: Precondition | None = None
    ) -> None:
        """Set how long outcomes may take from now on; what is lost already stays lost.

        Raises:
            InvalidInputError: this is not a length of time, the experiment is over, or its
                outcomes have a window.
        """
        seconds = inputs.read_lease(lease)
        with self._changing(precondition, leaps=True) as (tx, now):
            change.change_lease(tx, seconds, now)

    def add(
        self,
        option: str,
        *,
        features: Iterable[float] | None = None,
        precondition: Precondition | None = None,
    ) -> None:
        """Add an option: it is drawn from the next plan on, which is made at once.

        Adding it again with the same features is harmless.

        Args:
            option: its name, which no option had before.
            features: its features, as many as the others have; if left out, it shares none with
                them, as is right for options without features.
            precondition: see `ask`.

        Raises:
            InvalidInputError: there is or was another of this name, the features do not fit, the
                experiment is over, or its policy does not allow for changes.
        """
        with self._changing(precondition) as (tx, now):
            change.add(tx, self.options_at(tx), option, features, now)

    def retire(self, option: str, *, reason: str, precondition: Precondition | None = None) -> None:
        """Retire an option for good: nothing more is drawn of it, and it is not named as the best.

        Outcomes of assignments that were given out are still told, and count. Retiring it again
        with the same reason is harmless.

        Args:
            option: its name.
            reason: why, in words.
            precondition: see `ask`.

        Raises:
            InvalidInputError: there is none of this name, it was retired before or is the control
                or the last one left, the experiment is over, or its policy does not allow for
                changes.
        """
        with self._changing(precondition) as (tx, now):
            change.retire(tx, self.options_at(tx), option, reason, now)

    def close(self) -> None:
        """Release the database, if there is one."""
        self._ledger.close()

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
