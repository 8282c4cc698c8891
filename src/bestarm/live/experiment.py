"""Experiment: ask for a policy's pulls one batch at a time, and tell the outcomes as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bestarm.checks import duration, whole
from bestarm.errors import InvalidInputError, MissingDependencyError
from bestarm.live import rules
from bestarm.live.draws import read_seed
from bestarm.live.events import sha256
from bestarm.live.inputs import check_name, clean_text, normal_form, read_label, read_time
from bestarm.live.operations import Operations
from bestarm.live.replay import Player
from bestarm.live.store.memory import MemoryLedger
from bestarm.live.values import Listed
from bestarm.policies.policy import Policy
from bestarm.problem import Problem

if TYPE_CHECKING:
    from bestarm.live.spec import Spec
    from bestarm.live.store.sql import SqlLedger, Store

__all__ = ["Experiment"]


class Experiment(Operations):
    """Ask for assignments, carry them out, tell their outcomes: in any order, any number at a time.

    The arm of an assignment is drawn when it is asked for, after the plan is fixed, and is never
    drawn again: that is what makes the method valid under a moving baseline. A phase closes when
    each of its assignments is answered. Neither the order in which outcomes arrive nor the sizes of
    the batches asked for change any later plan or the recommendation by a single bit.

    An open plan never makes anybody wait: while its last outcomes are awaited, further assignments
    are drawn under it. It closes as soon as its share is answered without a gap, with all that
    follows without a gap; assignments beyond count once they are answered too. How many those are,
    and with them later plans, then depends on when outcomes arrive.

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
    """

    def __init__(
        self,
        policy: Policy,
        *,
        seed: int | None = None,
        lease: float | str | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        if isinstance(policy, type) or not isinstance(policy, Policy):
            raise InvalidInputError(
                f"`policy` must be a policy made for a problem; got {policy!r}.",
                field="policy",
                value=policy,
                remedy="Make one first, for example `SPBAI(problem)`.",
            )
        super().__init__(
            MemoryLedger(),
            Player(policy),
            policy.problem,
            seed=read_seed(seed),
            traits=policy.traits,
            clock=clock,
        )
        with self._ledger.writing() as tx:
            tx.head, created = rules.begin(self._now(tx), lease=lease, seed=self._seed)
            tx.add_event(created)
        self._advance()
        if self.phase > 1:
            raise InvalidInputError(
                f"`policy` is already in phase {self.phase}.",
                field="policy",
                value=policy,
                remedy="Start from a new policy: numbers drawn before must not be used again.",
            )

    @classmethod
    def _stored(
        cls, ledger: SqlLedger, spec: Spec, clock: Callable[[], float] | None
    ) -> Experiment:
        experiment = cls.__new__(cls)
        super(Experiment, experiment).__init__(
            ledger,
            Player(spec.make),
            spec.problem,
            seed=spec.seed,
            traits=spec.traits,
            clock=clock,
            spec=spec,
            name=ledger.name,
            description=ledger.description,
            place=ledger.place,
        )
        return experiment

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
    ) -> Experiment:
        """Begin an experiment that is kept in a database.

        Args:
            url: the database: `sqlite:///trial.db` for a file, or `postgresql://user@host/name`; or
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

        Raises:
            ClockError: the clock shows a time that cannot be.
            ExperimentExistsError: there is one of this name.
            StoreUnavailableError: the database cannot be reached or written to.
            StoreVersionError: its tables are of another version of bestarm.
        """
        from bestarm.live.spec import make_spec  # noqa: PLC0415

        spec = make_spec(problem, policy, options, read_seed(seed))
        texts = {"document": spec.to_json(), "description": clean_text(description)}
        hashes = {key: sha256(text) for key, text in texts.items()}
        title = check_name(name)
        seconds = None if lease is None else duration(lease, "lease")
        with _connected(url) as (store, ledgers):
            now = read_time(store.now() if clock is None else clock(), stored=True)
            head, created = rules.begin(now, lease=seconds, seed=spec.seed, name=title, **hashes)
            ledger = ledgers.create(store, title, head=head, created=created, **texts)
            experiment = cls._stored(ledger, spec, clock)
            experiment._advance()
        return experiment

    @classmethod
    def open(
        cls, url: str | Store, name: str, *, clock: Callable[[], float] | None = None
    ) -> Experiment:
        """Continue an experiment that is kept in a database, from any process.

        Raises:
            UnknownExperimentError: there is none of this name.
            StoreUnavailableError: the database cannot be reached.
            StoreVersionError: its tables are of another version of bestarm.
        """
        from bestarm.live.spec import Spec  # noqa: PLC0415

        with _connected(url) as (store, ledgers):
            ledger = ledgers.open(store, normal_form(read_label(name, "name")))
            return cls._stored(ledger, Spec.from_json(ledger.document), clock)

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
        with _connected(url) as (store, ledgers):
            found = ledgers.list(store, limit=most, after=after)
            if store is not url:
                store.close()
        return found

    def close(self) -> None:
        """Release the database, if there is one."""
        self._ledger.close()

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        name = f" {self._name!r}" if self._name else ""
        return f"<Experiment{name}: {self.status()}>"  # without the seed: it may end up in a log


@contextmanager
def _connected(url: str | Store) -> Iterator[tuple[Store, type[SqlLedger]]]:
    """A database and the ledgers in it; after an exception its connections are released."""
    try:
        from bestarm.live.store.sql import SqlLedger, Store  # noqa: PLC0415
    except ImportError as error:
        raise MissingDependencyError(
            f"Keeping experiments in a database needs {error.name}.",
            field="url",
            value=url,
            remedy="Run: pip install 'bestarm[live]'.",
        ) from None
    store = url if isinstance(url, Store) else Store(url)
    try:
        yield store, SqlLedger
    except BaseException:
        store.close()
        raise
