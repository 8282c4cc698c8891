"""Experiment: ask for a policy's pulls one batch at a time, and tell the outcomes as they come.

This is the interface alone: `bestarm.live.engine` carries the calls out, and every verb has a file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from bestarm import figures
from bestarm.checks import whole
from bestarm.errors import (
    BestArmError,
    ClockError,
    InvalidInputError,
    StoreError,
    UnknownAssignmentError,
)
from bestarm.forecasting import Forecaster
from bestarm.live import ask, change, inputs, state, tell, units
from bestarm.live.audit.verify import Audit, audit
from bestarm.live.draws import read_seed, seed_data
from bestarm.live.engine import Engine
from bestarm.live.events import log, sha256
from bestarm.live.export import Progress, assignments_frame, export, outcomes_frame, reports_frame
from bestarm.live.forecasts import Covariates, kind_of
from bestarm.live.guardrails import GuardrailReplayer, GuardrailRow, check_guardrails
from bestarm.live.inputs import Label
from bestarm.live.options import Options
from bestarm.live.replay import ReplayResult, recommend, replay
from bestarm.live.spec import (
    Spec,
    as_options,
    check_first,
    check_scale,
    make_spec,
    policy_for,
    read_policy_options,
)
from bestarm.live.standings import Standings
from bestarm.live.state import Precondition
from bestarm.live.store.database import Store, connected
from bestarm.live.store.head import Head, TimeLimits
from bestarm.live.store.ledger import Ledger, Snapshot
from bestarm.live.store.listing import list_experiments
from bestarm.live.store.memory import Memory
from bestarm.live.store.rows import ALL, Event, UnitKey
from bestarm.live.tell import Outcomes
from bestarm.live.values import (
    Assignment,
    Batch,
    Checks,
    ExperimentListing,
    Receipt,
    Status,
)
from bestarm.policies.policy import Policy
from bestarm.problem import Problem
from bestarm.recommendation import Recommendation

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from matplotlib.axes import Axes


T = TypeVar("T")
_log = logging.getLogger(__name__)
Guardrails = Mapping[str, Mapping[str, object]]
_GUESSABLE = 64  # bits: a random seed has 128


class Experiment:
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

    Made like this it is held in memory, and any number of threads may ask and tell. With
    `create` and `open` it is kept in a database, and any number of processes may. A forked process
    opens it again.

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
            it has `"worse": "lower"`. The action is `"retire"` or `"alert"`. With `"window": "14d",
            "otherwise": 0` a value counts as 0 where none was told within 14 days, so that only
            refunds need be told.

    Attributes:
        name: its name in the database; empty in memory.
        place: the URL of its database without the password; None in memory.
        spec: what a stored experiment is made of; None in memory.
        problem: the options with their features; what was added comes last, and what was retired is
            still there.
        seed: the seed of the draws.
        traits: what the policy declares about itself.
        engine: what carries its calls out, for servers that gather calls of many.
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
        ledger = _create(Memory(), "", policy.problem, limits, clock, seed=drawn)
        self._use(Engine(ledger, policy, drawn, clock, forecaster, rails))
        self.engine.advance()
        with self.read() as snapshot:
            plan = next(snapshot.plans(), None)
        check_first(None if plan is None else plan.plan, forecasts, by_plan=True)
        if self.phase > 1:
            raise InvalidInputError(
                f"The policy is already in phase {self.phase}.",
                field="options",
                value=policy,
                remedy="Start from a new policy: numbers drawn before must not be used again.",
            )

    def _use(self, engine: Engine) -> None:
        ledger, self.engine = engine.ledger, engine
        self.spec, self.traits, self.seed = engine.spec, engine.traits, engine.seed
        self.name = ledger.name
        self.place = None if engine.spec is None else ledger.store.place

    @classmethod
    def _stored(
        cls,
        ledger: Ledger,
        spec: Spec,
        clock: Callable[[], float] | None,
        forecaster: Forecaster | str | None,
    ) -> Experiment:
        made = cls.__new__(cls)
        made._use(Engine(ledger, spec, spec.seed, clock, forecaster, spec.guardrails))
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
        kind = kind_of(forecaster)
        problem = as_options(options)
        plain = read_policy_options(policy_options, bounds=bounds, control=control)
        spec = make_spec(
            problem, policy, plain, read_seed(seed), forecaster=kind, guardrails=guardrails
        )
        check_scale(policy, plain, declared=isinstance(options, Problem))
        title = inputs.check_name(name)
        limits = inputs.read_limits(lease, window, otherwise, spec.traits.bounds)
        with connected(url) as store:
            document, text = spec.to_json(), inputs.clean_text(description)
            ledger = _create(
                store,
                title,
                problem,
                limits,
                clock,
                seed=spec.seed,
                document=document,
                description=text,
            )
            experiment = cls._stored(ledger, spec, clock, forecaster)
            experiment.engine.advance()
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
        with connected(url) as store:
            ledger = Ledger.open(store, inputs.normal_form(inputs.read_label(name, "name")))
            spec = Spec.from_json(ledger.document, allowed)
            return cls._stored(ledger, spec, clock, forecaster)

    @staticmethod
    def list(
        url: str | Store,
        *,
        limit: int | None = None,
        after: str | None = None,
        archived: bool = False,
    ) -> Sequence[ExperimentListing]:
        """The experiments of a database, oldest first.

        Args:
            url: the database.
            limit: the largest number to return; all of them by default.
            after: the name of the last one before these, to read them in parts.
            archived: whether archived ones are listed too.

        Raises:
            UnknownExperimentError: there is no experiment `after`.
            StoreVersionError: its tables are of another version of bestarm.
        """
        most = None if limit is None else whole(limit, "limit", least=1)
        if after is not None:
            after = inputs.normal_form(inputs.read_label(after, "after"))
        with connected(url) as store:
            found = list_experiments(store, limit=most, after=after, archived=archived)
            if store is not url:
                store.close()
        return found

    # --- verbs ---

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
        return self.engine.ask(
            ask.read(
                count,
                unit=unit,
                decision_point=decision_point,
                available=available,
                request_id=request_id,
                covariates=covariates,
                forecasts=forecasts,
                precondition=precondition,
            )
        )

    def served(self) -> Assignment | None:
        """What `ask` serves once the experiment is over; None before."""
        return self.engine.served()

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
        pairs: Sequence[tuple[Any, Any]] = [(named, told | guardrails)]
        if unit is not None:
            pairs = self.with_ids(pairs)
        return self.engine.tell(tell.read_told(pairs))

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
        pairs = tell.read_pairs(outcomes, self._guardrail_names())
        named = self.with_ids(pairs, precondition=precondition)
        return self.engine.tell(tell.read_told(named, precondition))

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
            with self.engine.ledger.transaction() as tx:
                if precondition is not None:
                    precondition(tx)
                rounds = units.erase(tx, key.unit, self.engine.stamp(tx, leaps=True))
        except UnknownAssignmentError:
            self.engine.ledger.purge()  # which may have failed when it was erased
            raise
        self.engine.ledger.purge()
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
        with self.engine.changing(precondition) as (tx, now):
            if served:
                tell.check_served(tx.head)
            tell.fail(tx, numbers, reason=inputs.clean_text(reason), now=now)

    def expire(self) -> bool:
        """Settle assignments whose lease or window has ended, and return whether there were any.

        `ask` and `tell` do it too. As long as no time is up it only reads.
        """
        with self.read() as snapshot:
            head, now = snapshot.head, self.engine.now(snapshot)
            if not head.stage.is_pending and not head.is_overdue(now):
                return False
        with self.engine.changing() as (tx, now):
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
        self.engine.stop(inputs.clean_text(reason), precondition)

    def archive(self, *, undo: bool = False, precondition: Precondition | None = None) -> None:
        """Have lists leave it out, or with `undo` show it again; it stays, and goes on."""
        with self.engine.changing(precondition, leaps=True) as (tx, now):
            change.set_archived(tx, now, archived=not undo)

    def describe(self, text: str, *, precondition: Precondition | None = None) -> None:
        """Change its description. The log keeps what it was before."""
        with self.engine.changing(precondition, leaps=True) as (tx, now):
            change.describe(tx, inputs.clean_text(text), now)

    def _change_state(self, kind: str, precondition: Precondition | None) -> None:
        with self.engine.changing(precondition, leaps=True) as (tx, now):
            change.set_state(tx, kind, now)

    def note(self, text: str, **numbers: int) -> None:
        """Add a remark to the log, with numbers to read back from `events`. Nothing else changes.

        The event is `"noted"`, and its data are the numbers and the `text`.
        """
        with self.engine.changing(leaps=True) as (tx, now):
            log(tx, "noted", now, **numbers, text=inputs.clean_text(text))

    def change_lease(
        self, lease: float | str | None, *, precondition: Precondition | None = None
    ) -> None:
        """Set how long outcomes may take from now on; what is lost already stays lost.

        Raises:
            InvalidInputError: this is not a length of time, the experiment is over, or its
                outcomes have a window.
        """
        seconds = inputs.read_lease(lease)
        with self.engine.changing(precondition, leaps=True) as (tx, now):
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
        with self.engine.changing(precondition) as (tx, now):
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
        with self.engine.changing(precondition) as (tx, now):
            change.retire(tx, self.options_at(tx), option, reason, now)

    # --- what it has come to ---

    def read(self, precondition: Precondition | None = None) -> AbstractContextManager[Snapshot]:
        """A transaction that reads one state of the ledger, for programs that watch it."""
        return self.engine.read(precondition)

    @property
    def problem(self) -> Problem:
        """The options with their features, as they are now: those that were added come last, and
        those that were retired are still there."""
        if not self.traits.changes:
            return self.engine.first_options.problem
        with self.read() as snapshot:
            return self.options_at(snapshot).problem

    def options_at(self, snapshot: Snapshot) -> Options:
        """The options in one state of the ledger, whichever process changed them."""
        return self.engine.options_at(snapshot)

    @property
    def description(self) -> str:
        """What it is about, in words, as it is described now."""
        with self.read() as snapshot:
            return snapshot.description

    @property
    def phase(self) -> int:
        """The open phase, or the last one when finished."""
        return self._head().phase

    @property
    def state(self) -> str:
        """`"running"`, `"paused"`, `"stopped"` by its owner or `"finished"` by the policy."""
        return self._head().state

    @property
    def revision(self) -> str:
        """A text that changes whenever anything is recorded."""
        return self._head().revision

    @property
    def finished(self) -> bool:
        """Whether it is over: nothing more will be assigned."""
        return self._head().over

    @property
    def lease(self) -> float | None:
        """Seconds after which an assignment without an outcome is lost, or None."""
        return self._head().lease

    @property
    def window(self) -> float | None:
        """Seconds after which an outcome enters, or None if it does when it is told."""
        return self._head().window

    @property
    def otherwise(self) -> float | None:
        """The outcome where nothing is told within the window, or None without one."""
        return self._head().otherwise

    def now(self) -> float:
        """The time in seconds: by the clock of the experiment, or else of the ledger."""
        with self.read() as snapshot:
            return self.engine.now(snapshot)

    def recommendation(self) -> Recommendation:
        """The target the policy would name now, from the phases closed so far."""
        with self.engine.reading_policy() as (policy, snapshot):
            return recommend(policy, snapshot.head.state)

    def inspect(self, function: Callable[[Policy, Snapshot], T]) -> T:
        """The result of a function of the policy and the ledger, while nobody else uses the policy.

        It must change neither. It is for programs that watch an experiment.
        """
        with self.engine.reading_policy() as (policy, snapshot):
            return function(policy, snapshot)

    def status(self) -> Status:
        """The status of the experiment."""
        with self.read() as snapshot:
            return snapshot.head.status(*state.waits_for(snapshot))

    def assignments(self) -> pd.DataFrame:
        """Every assignment by id, with its state."""
        with self.read() as snapshot:
            return assignments_frame(
                snapshot,
                self.options_at(snapshot).problem,
                forecasts=self.engine.forecasts is not None,
                guardrails=self._guardrail_names(),
            )

    def outcomes(self) -> pd.DataFrame:
        """Every outcome told, by id; `tell_many` takes it as it is."""
        with self.read() as snapshot:
            problem = self.options_at(snapshot).problem
            return outcomes_frame(snapshot, problem, self._guardrail_names())

    def reports(self) -> pd.DataFrame:
        """Everything told of outcomes that have a window, in the order told, late reports too."""
        with self.read() as snapshot:
            return reports_frame(snapshot)

    def _standings(self) -> Standings:
        with self.engine.reading_policy() as (policy, snapshot):
            return Standings.of(policy, snapshot.head.state, self.options_at(snapshot))

    def to_frame(self) -> pd.DataFrame:
        """How the options stand, one row per option, the leader first.

        Its `status` is `"leads"`, `"possible"`, `"ruled out"` or `"retired"`, and once it is final
        `"best"`, or `"named"` if that is not proven. `mean` is what the option would have paid on
        average so far, `behind` how far that is below the leader's. Both have the ends of an
        interval that holds at every moment; NaN stands for what the policy does not know.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        return self._standings().to_frame()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw how far each option is behind the leader, with intervals.

        Args:
            ax: where to draw; a new picture if left out.

        Raises:
            MissingDependencyError: Matplotlib is not installed.
        """
        standings = self._standings()
        axes = figures.as_axes(ax, height=1.2 + 0.36 * len(standings.rows))
        title = str(standings.recommendation)
        return figures.draw_distances(axes, standings.distances(), title)

    def guardrails(self) -> Sequence[GuardrailRow]:
        """How much worse than the control each option is, by each guardrail, valid at all looks.

        Values of assignments count once their phase is closed.
        """
        with self.engine.reading_guardrails() as (guards, snapshot):
            options = self.options_at(snapshot)
            if guards is None:
                return []
            return guards.table(snapshot, options.problem.target_labels, options.retired)

    def export(
        self,
        path: str | Path,
        *,
        layout: str = "assignments",
        probabilities: bool = False,
        progress: Progress | None = None,
    ) -> int:
        """Write all assignments and their outcomes to a file, and return their number.

        It reads one state, in pieces: the memory needed does not grow with the experiment.

        Args:
            path: the file, `.csv` or `.parquet`; it is there whole or not at all. Where there are
                any, it has forecasts, units, decision points, and covariates as JSON.
            layout: `"assignments"` with all that is on record, or `"mrt"`, one row per
                decision point as analysts of micro-randomised trials have it, without unused
                outcomes.
            probabilities: add the probability of every arm, not only of the one that was drawn.
            progress: called with (assignments written, in total) after every piece.
        """
        with self.read() as snapshot:
            return export(
                snapshot,
                self.options_at(snapshot),
                path,
                layout=layout,
                probabilities=probabilities,
                forecasts=self.engine.forecasts is not None,
                guardrails=self._guardrail_names(),
                progress=progress,
            )

    def events(self, start: int = 0, *, limit: int | None = None) -> Sequence[Event]:
        """The log: every change of the experiment's state.

        Args:
            start: the number of the first event.
            limit: how many at most; None for all.
        """
        whole(start, "start", least=0, below=2**62)
        if limit is not None:
            whole(limit, "limit", least=1, below=2**62)
        with self.read() as snapshot:
            return list(snapshot.events(start, ALL if limit is None else start + limit))

    def verify(self, *, progress: Progress | None = None) -> Audit:
        """Audit the record: check the log, draw every arm again, and add up every summary again.

        It reads one state, in pieces: the memory needed does not grow with the experiment.

        Args:
            progress: called with (assignments checked, in total) after every piece.
        """
        created: dict[str, object] = {"seed": seed_data(self.seed)}
        with self.read() as snapshot:
            if self.spec is not None:
                document = self.engine.ledger.document
                created |= _created(self.name, document, snapshot.description)
            return audit(
                snapshot,
                options_at=self.options_at,
                seed=self.seed,
                created=created,
                progress=progress,
            )

    def replay(self) -> ReplayResult:
        """Make the policy again, tell it all it was told, and compare what it does with the log.

        Recorded plans are adopted; where they would differ here, a remark says so.

        Raises:
            ReplayError: the policy drops or recommends other targets than on record.
            InvalidInputError: the experiment is in memory, and its policy cannot be made again.
        """
        spec = self.stored_spec("replayed")
        with self.read() as snapshot:
            if spec.guardrails:
                guards = GuardrailReplayer(spec.guardrails, spec.problem.arms, spec.traits)
                retired = self.options_at(snapshot).retired.items()
                guards.check(snapshot, {target: change.phase for target, change in retired})
            return replay(snapshot, spec.make())

    def stored_spec(self, verb: str) -> Spec:
        """What it is made of, without which it cannot be replayed or watched, as `verb` says.

        Raises:
            InvalidInputError: the experiment is in memory.
        """
        if self.spec is None:
            raise InvalidInputError(
                f"An experiment in memory cannot be {verb}: its policy cannot be made again.",
                field="experiment",
                remedy="Keep it in a database: see `Experiment.create`.",
            )
        return self.spec

    def health(self) -> Checks:
        """The health checks, each a `bestarm.live.Check`; `print` shows them as a table.

        Quick for any number of outcomes: they read the counters, the summaries and the assignments
        that no summary covers.
        """
        from bestarm.live.audit.health import examine  # noqa: PLC0415  (SciPy takes its time)

        with self.read() as snapshot:
            now = self.engine.now(snapshot)
            options = self.options_at(snapshot)
            return Checks(examine(snapshot, options, now=now, seed=self.seed))

    def _guardrail_names(self) -> Sequence[str]:
        return [each.name for each in self.engine.guardrails]

    def _head(self) -> Head:
        with self.read() as snapshot:
            return snapshot.head.copy()

    def __repr__(self) -> str:
        try:
            status = str(self.status())
        except StoreError as error:  # to be shown, not raised: a notebook would show a traceback
            status = str(error)
        name = f" {self.name!r}" if self.name else ""
        return f"<Experiment{name}: {status}>"  # without the seed: it may end up in a log

    def _repr_html_(self) -> str:
        head = f"Experiment {self.name}".rstrip()
        try:
            standings, status = self._standings(), self.status()
        except BestArmError as error:
            return f"<p>{escape(f'{head}: {error}')}</p>"
        title = f"{head}: {status}.\n{standings.recommendation}."
        return standings.to_table(title).to_html()

    def close(self) -> None:
        """Release the database, if there is one."""
        self.engine.ledger.close()

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _create(
    store: Store | Memory,
    name: str,
    problem: Problem,
    limits: TimeLimits,
    clock: Callable[[], float] | None,
    *,
    seed: int,
    document: str = "",
    description: str = "",
) -> Ledger:
    """A new ledger with the first event of its log, which covers what the experiment is made of."""
    inputs.check_clock(clock)
    now = store.now() if clock is None else clock()
    stored = isinstance(store, Store)
    covered = _created(name, document, description) if stored else {}
    head, created = state.begin(inputs.read_time(now, stored=stored), limits, seed=seed, **covered)
    head.options = problem.targets
    return Ledger.create(
        store, name, document=document, description=description, head=head, created=created
    )


def _created(name: str, document: str, description: str) -> dict[str, str]:
    """What the first event of a stored experiment covers."""
    return {"name": name, "document": document, "description": sha256(description)}
