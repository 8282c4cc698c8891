"""The options of an experiment, which may come and go while it runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from bestarm.checks import suggestion
from bestarm.errors import BestArmError, InvalidInputError
from bestarm.live.events import chain_hash
from bestarm.live.inputs import clean_text, read_label
from bestarm.live.store.contract import Change, damaged
from bestarm.policies.policy import Traits
from bestarm.problem import Problem


@dataclass(frozen=True)
class Options:
    """The options after some changes, the retired ones too: an index is never used again.

    Attributes:
        problem: all options there ever were; those that were added come last.
        traits: what the policy declares about itself.
        changes_hash: of all changes there were, by which these options are known.
        retired: the retirement of each option that was retired, by its index.
        added: the additions, in their order.
    """

    problem: Problem
    traits: Traits
    changes_hash: str = ""
    retired: dict[int, Change] = field(default_factory=dict)
    added: tuple[Change, ...] = ()

    def after_all(self, changes: Iterable[Change]) -> Options:
        """The options after these changes: see `after`."""
        options = self
        for change in changes:
            options = options.after(change)
        return options

    def after(self, change: Change) -> Options:
        """The options after one more change.

        Raises:
            DamagedStoreError: the change cannot be made.
        """
        problem, retired, added = self.problem, self.retired, self.added
        try:
            if change.kind == "added":
                problem = problem.with_option(change.label, change.features)
                added = (*added, change)
            else:
                index = problem.target_labels.index(change.label)
                retired = {**retired, index: change}
        except (BestArmError, ValueError) as error:
            what = f"Option {change.label!r} cannot have been {change.kind} ({error})."
            raise damaged(what, change.label) from error
        hashed = chain_hash(self.changes_hash, change)
        return Options(problem, self.traits, hashed, retired, added)

    def arms(self, phase: int) -> int:
        """The number of arms that the plan of a phase is over."""
        return self.problem.arms - sum(change.phase >= phase for change in self.added)

    def knows(self, kind: str, label: object, **data: object) -> bool:
        """Whether this very change was made before, and holds: repeating it is harmless."""
        changes = self.added if kind == "added" else tuple(self.retired.values())
        if kind == "added" and label in {change.label for change in self.retired.values()}:
            return False
        return any(
            change.label == label and data.items() <= vars(change).items() for change in changes
        )

    @property
    def left(self) -> list[str]:
        """The names of the options that were not retired."""
        labels = enumerate(self.problem.target_labels)
        return [label for index, label in labels if index not in self.retired]

    def check_retirable(self, label: object) -> int:
        """The index of an option that can be retired.

        Raises:
            InvalidInputError: it cannot.
        """
        self._check_changes()
        labels, left = self.problem.target_labels, self.left
        if not isinstance(label, str) or label not in labels:
            close = suggestion(label, left) if isinstance(label, str) else ""
            raise _refused(
                f"There is no option {label!r}.", label, close or f"There are {_names(left)}."
            )
        index = labels.index(label)
        if (before := self.retired.get(index)) is not None:
            remedy = "Retiring is never undone; nothing more is drawn of it."
            message = f"Option {label!r} was retired before ({before.reason})."
            raise _refused(message, label, remedy)
        if index == self.traits.control:
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

    def check_addable(self, label: object, features: object) -> tuple[float, ...] | None:
        """The features of an option that can be added.

        Raises:
            InvalidInputError: it cannot be.
        """
        self._check_changes()
        problem = self.problem.with_option(read_label(label, "option"), features)
        return None if features is None else tuple(problem.source[-1].tolist())

    def _check_changes(self) -> None:
        if not self.traits.changes:
            raise InvalidInputError(
                "The policy of this experiment goes on with the options that it began with.",
                field="policy",
                value=False,
                remedy="Create another experiment, with a policy that allows for changes: "
                "'anytime' does, for one option named as the best of single draws.",
            )
        if not self.problem.compares_arms:
            raise InvalidInputError(
                "Options come and go only where the arms themselves are compared.",
                field="target",
                value=self.problem.target.shape,
                remedy="Create another experiment with the targets that are wanted.",
            )


def _names(labels: Iterable[str]) -> str:
    return ", ".join(map(repr, labels))


def _refused(message: str, label: object, remedy: str) -> InvalidInputError:
    return InvalidInputError(message, field="option", value=label, remedy=remedy)


def read_reason(reason: object) -> str:
    """Why an option is retired, as a text that is not empty."""
    text = clean_text(reason).strip() if isinstance(reason, str) else ""
    if not text:
        message = f"`reason` must say why the option is retired; got {reason!r}."
        remedy = 'For example reason="refunds".'
        raise InvalidInputError(message, field="reason", value=reason, remedy=remedy)
    return text
