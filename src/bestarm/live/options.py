"""The options of an experiment, which may come and go while it runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from bestarm.errors import BestArmError
from bestarm.live.store.rows import Change, damaged
from bestarm.policies.policy import Traits
from bestarm.problem import Problem


@dataclass(frozen=True)
class Options:
    """The options after some changes, the retired ones too: an index is never used again.

    Attributes:
        problem: all options there ever were; those that were added come last.
        traits: what the policy declares about itself.
        changes: how many changes there were.
        retired: the retirement of each option that was retired, by its index.
        added: the additions, in their order.
    """

    problem: Problem
    traits: Traits
    changes: int = 0
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
        return Options(problem, self.traits, self.changes + 1, retired, added)

    def arms(self, phase: int) -> int:
        """The number of arms that the plan of a phase is over."""
        return self.problem.arms - sum(change.phase >= phase for change in self.added)

    @property
    def left(self) -> list[str]:
        """The names of the options that were not retired."""
        labels = enumerate(self.problem.target_labels)
        return [label for index, label in labels if index not in self.retired]
