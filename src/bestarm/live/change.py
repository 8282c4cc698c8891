"""Change: an experiment is paused, resumed or stopped, and its lease and its options change.

Each verb is a function of a transaction: it checks what the caller gives and the state that the
experiment is in, and then writes an event. To repeat a change is harmless.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bestarm.checks import suggestion, vector
from bestarm.errors import InvalidInputError
from bestarm.live import events
from bestarm.live.events import log, recommendation_data
from bestarm.live.inputs import clean_text, read_label
from bestarm.live.options import Options
from bestarm.live.replay import PolicyReplayer, recommend
from bestarm.live.state import find_settled
from bestarm.live.store.head import Head
from bestarm.live.store.ledger import Snapshot, Transaction
from bestarm.live.store.rows import Change

# --- the state and the lease --------------------------------------------------------------------


def set_state(tx: Transaction, kind: str, at: float, **data: Any) -> None:
    """Pause, resume or stop an experiment, unless it is already paused, running or stopped.

    The event is `"paused"`, `"resumed"` or `"stopped"`.
    """
    head, goal = tx.head, "running" if kind == "resumed" else kind
    if head.state == goal:
        return
    _check_not_over(head, kind)
    head.state = goal
    if kind == "stopped":
        data |= events.rest_data(tx)
    log(tx, kind, at, **data)


def set_archived(tx: Transaction, at: float, *, archived: bool) -> None:
    """Have lists leave an experiment out, or show it again; it goes on as it did."""
    if tx.head.archived != archived:
        tx.head.archived = archived
        log(tx, "archived" if archived else "restored", at)


def describe(tx: Transaction, text: str, at: float) -> None:
    """Change what the experiment is about, in words; the log has every description."""
    if tx.description != text:
        tx.describe(text)
        log(tx, "described", at, description=text)


def _check_not_over(head: Head, verb: str) -> None:
    if head.over:
        wrong = f"An experiment that is {head.state} cannot be {verb}."
        remedy = "Create another experiment to go on."
        raise InvalidInputError(wrong, field="state", value=head.state, remedy=remedy)


def change_lease(tx: Transaction, lease: float | None, at: float) -> None:
    """Set how long outcomes may take."""
    head = tx.head
    _check_not_over(head, "given another lease")
    if head.window is not None:
        message = "The outcomes of this experiment have a window, and none takes longer."
        remedy = "A window is settled at creation: what comes early depends on its length."
        raise InvalidInputError(message, field="lease", value=lease, remedy=remedy)
    if lease != head.lease:
        log(tx, "changed", at, lease=lease, before=head.lease)
        head.lease = lease


def recommend_at_stop(replayer: PolicyReplayer, snapshot: Snapshot) -> dict[str, Any] | None:
    """What the log says of the recommendation at a stop.

    None where the policy fails, as one of another version does: stopping does not depend on it.
    """
    try:
        return recommendation_data(recommend(replayer.policy(snapshot), "stopped"))
    except Exception:
        return None


# --- options ------------------------------------------------------------------------------------


def retire(
    tx: Transaction, options: Options, label: object, reason: object, at: float, by: str = "hand"
) -> Options:
    """Retire an option for good: nothing more is drawn of it from this transaction on.

    To repeat it with the same reason is harmless.

    Args:
        tx: the transaction.
        options: the options as they are, before anything is changed.
        label: the option.
        reason: why, in words.
        at: the time.
        by: what retires it, if nobody did.

    Returns:
        The options as they are then.
    """
    why = _read_reason(reason)
    if _is_known(options, "retired", label, reason=why):
        return options
    _check_not_over(tx.head, "changed")
    name = options.problem.target_labels[_check_retirable(options, label)]
    return _change_options(tx, options, "retired", name, at, reason=why, made_by=by)


def add(tx: Transaction, options: Options, label: object, features: object, at: float) -> Options:
    """Add an option: see `Experiment.add`. Returns the options as they are then."""
    row = None if features is None else tuple(vector(features, "features").tolist())
    if _is_known(options, "added", label, features=row):
        return options
    _check_not_over(tx.head, "changed")
    row = _check_addable(options, label, row)
    return _change_options(tx, options, "added", str(label), at, features=row)


def _change_options(
    tx: Transaction, options: Options, kind: str, label: str, at: float, **data: Any
) -> Options:
    """Record a change. The open phase closes with what was assigned so far: see `close.prepare`."""
    head = tx.head
    known = {"reason": "", "features": None, "made_by": "hand"} | data
    change = Change(head.changes, head.phase, kind, label, **known, at=at)
    after = options.after(change)
    tx.add(change)
    head.changes += 1
    head.options += 1 if kind == "added" else -1  # until the policy says how many are left
    if head.waits:
        find_settled(tx)
    log(tx, kind, at, **events.change_data(change, head.assigned))
    return after


def _is_known(options: Options, kind: str, label: object, **data: object) -> bool:
    """Whether this very change was made before, and holds."""
    changes = options.added if kind == "added" else tuple(options.retired.values())
    if kind == "added" and label in {change.label for change in options.retired.values()}:
        return False
    return any(change.label == label and data.items() <= vars(change).items() for change in changes)


def _check_retirable(options: Options, label: object) -> int:
    """The index of an option that can be retired.

    Raises:
        InvalidInputError: it cannot.
    """
    _check_allowed(options)
    labels, left = options.problem.target_labels, options.left
    if not isinstance(label, str) or label not in labels:
        close = suggestion(label, left) if isinstance(label, str) else ""
        raise _refused(
            f"There is no option {label!r}.", label, close or f"There are {_names(left)}."
        )
    index = labels.index(label)
    if (before := options.retired.get(index)) is not None:
        remedy = "Retiring is never undone; nothing more is drawn of it."
        message = f"Option {label!r} was retired before ({before.reason})."
        raise _refused(message, label, remedy)
    if index == options.traits.control:
        raise _refused(
            f"Option {label!r} is the control, which the others are measured against.",
            label,
            "Stop the experiment, and create another with another control.",
        )
    if len(left) == 1:
        raise _refused(
            f"Option {label!r} is the last one left.", label, "Stop the experiment instead."
        )
    return index


def _check_addable(options: Options, label: object, features: object) -> tuple[float, ...] | None:
    """The features of an option that can be added.

    Raises:
        InvalidInputError: it cannot be.
    """
    _check_allowed(options)
    problem = options.problem.with_option(read_label(label, "option"), features)
    return None if features is None else tuple(problem.source[-1].tolist())


def _check_allowed(options: Options) -> None:
    if not options.traits.changes:
        raise InvalidInputError(
            "The policy of this experiment goes on with the options that it began with.",
            field="policy",
            value=False,
            remedy="Create another experiment, with a policy that allows for changes: "
            "'anytime' does, for one option named as the best of single draws.",
        )
    if not options.problem.compares_arms:
        raise InvalidInputError(
            "Options come and go only where the arms themselves are compared.",
            field="target",
            value=options.problem.target.shape,
            remedy="Create another experiment with the targets that are wanted.",
        )


def _names(labels: Iterable[str]) -> str:
    return ", ".join(map(repr, labels))


def _refused(message: str, label: object, remedy: str) -> InvalidInputError:
    return InvalidInputError(message, field="option", value=label, remedy=remedy)


def _read_reason(reason: object) -> str:
    """Why an option is retired, as a text that is not empty."""
    text = clean_text(reason).strip() if isinstance(reason, str) else ""
    if not text:
        message = f"`reason` must say why the option is retired; got {reason!r}."
        remedy = 'For example reason="refunds".'
        raise InvalidInputError(message, field="reason", value=reason, remedy=remedy)
    return text
