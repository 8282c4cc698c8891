"""Guardrails: e-values by enumeration, values that come late or never, options that are added."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from bestarm.bounds import guardrail_share
from bestarm.errors import InvalidInputError
from bestarm.numerics.geometry import Array
from bestarm.policies.anytime.guardrails import GuardrailEvidence
from bestarm.policies.guardrail import Guardrail, read_guardrails
from bestarm.records import Counts, Plan

REFUND = Guardrail("refund", (0.0, 1.0), 0.1, 0.05)
CONTROL = 0


def plan(weights: Sequence[float], pulls: int, phase: int) -> Plan:
    return Plan.randomised(weights, pulls, phase=phase, open=True)


def evidence(guardrail: Guardrail = REFUND, options: int = 2, **given: Any) -> GuardrailEvidence:
    known = {"options": options, "control": CONTROL, "changes": False} | given
    return GuardrailEvidence(guardrail, **known)


def batch(
    of: GuardrailEvidence, weights: Sequence[float], arms: Any, values: Any, phase: int
) -> None:
    """One batch whose values are told at once."""
    arms = np.asarray(arms)
    of.open(plan(weights, len(arms), phase))
    of.close(np.bincount(arms, minlength=len(weights)))
    of.amend(phase, arms, np.asarray(values, dtype=float))


def e_values(of: GuardrailEvidence) -> Array:
    """On both sides of the margin, of each option: the wealth after the last batch."""
    found = []
    for each in (of._worse, of._fine):
        *_, [wealth] = each.account.prefixes()
        found.append(of._grid.log_value(wealth))
    return np.exp(found)


# --- the e-value, exactly -------------------------------------------------------------------------

PULLS = 2  # in each of two batches
Path = tuple[tuple[int, int], ...]  # arms and values, in the order drawn


def paths(worse_by: float) -> Iterator[tuple[float, Path, Callable[[Path], list[float]]]]:
    """All that can happen in two batches, with its probability.

    Plans and the baseline of the second batch depend on what happened in the first.
    """

    def weights(past: Path) -> list[float]:
        if not past:
            return [0.7, 0.3]
        return [0.2, 0.8] if sum(value for _, value in past) >= 2 else [0.5, 0.5]

    def baseline(past: Path) -> float:
        return 0.1 + 0.6 * (len(past) >= PULLS and past[0][1] == 1)

    for path in product(product((0, 1), (0, 1)), repeat=2 * PULLS):
        chance = 1.0
        for place, (arm, value) in enumerate(path):
            past = path[: place // PULLS * PULLS]
            rate = baseline(path[:place]) + worse_by * (arm != CONTROL)
            chance *= weights(past)[arm] * (rate if value else 1 - rate)
        yield chance, path, weights


def play(
    path: Path, weights: Callable[[Path], list[float]], told: Callable[[int, int], bool]
) -> GuardrailEvidence:
    of = evidence()
    for phase in (1, 2):
        part = path[(phase - 1) * PULLS : phase * PULLS]
        arms, values = np.array(part).T
        of.open(plan(weights(path[: (phase - 1) * PULLS]), PULLS, phase))
        of.close(np.bincount(arms, minlength=2))
        known = np.array([told(arm, value) for arm, value in part])
        if known.any():
            of.amend(phase, arms[known], values[known].astype(float))
    return of


UNTOLD: dict[str, Callable[[int, int], bool]] = {
    "all told": lambda arm, value: True,
    "options without a refund never told": lambda arm, value: arm == CONTROL or value == 1,
    "control with a refund never told": lambda arm, value: arm != CONTROL or value == 0,
    "no zero told": lambda arm, value: value == 1,
}


@pytest.mark.parametrize("told", UNTOLD.values(), ids=list(UNTOLD))
@pytest.mark.parametrize(("worse_by", "side"), [(0.1, 0), (0.05, 0), (-0.05, 0), (0.1, 1)])
def test_the_mean_of_an_e_value_is_at_most_one(
    worse_by: float, side: int, told: Callable[[int, int], bool]
) -> None:
    """An option that is no worse than the margin, exactly at it, or on the other side."""
    mean = total = 0.0
    for chance, path, weights in paths(worse_by):
        mean += chance * e_values(play(path, weights, told))[side, 1]
        total += chance
    assert total == pytest.approx(1.0)
    assert mean <= 1 + 1e-12


def test_an_option_that_is_worse_has_a_mean_above_one() -> None:
    """So that the test above can fail."""
    means = [
        sum(
            chance * e_values(play(path, weights, UNTOLD["all told"]))[0, 1]
            for chance, path, weights in paths(worse_by)
        )
        for worse_by in (0.1, 0.25)
    ]
    assert means[0] < 1 < means[1]


def test_values_that_are_passed_over_would_accuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting only what was told, as if the rest had not been drawn, breaks the promise."""
    told, close = UNTOLD["options without a refund never told"], GuardrailEvidence.close
    mean = 0.0
    for chance, path, weights in paths(0.1):
        phases = iter([path[:PULLS], path[PULLS:]])

        def passing_over(
            self: GuardrailEvidence, drawn: Counts, phases: Iterator[Path] = phases
        ) -> None:
            known = [arm for arm, value in next(phases) if told(arm, value)]
            close(self, np.bincount(np.array(known, dtype=np.int64), minlength=2))

        monkeypatch.setattr(GuardrailEvidence, "close", passing_over)
        mean += chance * e_values(play(path, weights, told))[0, 1]
    assert mean > 1.02


# --- when values come -----------------------------------------------------------------------------


def some_values(seed: int = 0, count: int = 40) -> tuple[Counts, Array]:
    rng = np.random.default_rng(seed)
    arms = rng.choice(2, size=count)
    return arms, (rng.random(count) < np.where(arms == CONTROL, 0.1, 0.6)).astype(float)


def test_values_in_any_order_and_any_parts_are_the_same_evidence() -> None:
    arms, values = some_values()
    whole, parts = evidence(), evidence()
    batch(whole, [0.5, 0.5], arms, values, 1)
    parts.open(plan([0.5, 0.5], 40, 1))
    parts.close(np.bincount(arms, minlength=2))
    seen = []
    for part in np.array_split(np.random.default_rng(1).permutation(40), 7):
        parts.amend(1, arms[part], values[part])
        seen.append(parts.log_evidence()[1])
    assert seen[-1] == pytest.approx(whole.log_evidence()[1], abs=1e-9)
    assert seen == sorted(seen)  # a value that is told can only add to what is shown
    one, other = whole.look(), parts.look()
    assert np.allclose([one.low, one.high], [other.low, other.high])
    assert (one.values, one.outstanding) == (other.values, other.outstanding) == (40, 0)


def test_values_that_are_never_told_hide_nothing_that_was_shown() -> None:
    of = evidence()
    for phase in range(1, 7):
        batch(of, [0.5, 0.5], *some_values(phase), phase)
    shown = of.log_evidence()[1]
    for phase in range(7, 60):  # more than the prefixes that are looked at elsewhere
        of.open(plan([0.5, 0.5], 40, phase))
        of.close(np.array([20, 20]))
    assert of.log_evidence()[1] == shown > of.levels[1]
    look = of.look()
    assert look.worse.tolist() == [False, True]
    assert (look.values, look.outstanding) == (240, 53 * 40)
    assert look.low[1] > REFUND.worse_by


def test_a_copy_goes_on_by_itself() -> None:
    of = evidence()
    batch(of, [0.5, 0.5], *some_values(), 1)
    before, other = of.log_evidence()[1], of.copy()
    batch(other, [0.5, 0.5], *some_values(3), 2)
    assert other.log_evidence()[1] > before == of.log_evidence()[1]
    batch(of, [0.5, 0.5], *some_values(3), 2)
    assert of.log_evidence()[1] == other.log_evidence()[1]


def test_ends_stay_within_what_the_bounds_allow() -> None:
    """No two values differ by more than the width of the bounds; before the first it may be any."""
    of = evidence(Guardrail("delay", (10.0, 14.0), 0.5, 0.05))
    before = of.look()
    assert (before.low[1], before.high[1]) == (-4, 4)
    batch(of, [0.5, 0.5], np.array([0, 1, 1]), np.array([11.0, 13.0, 10.0]), 1)
    look = of.look()
    assert -4 <= look.low[1] <= look.high[1] <= 4


# --- what is worse --------------------------------------------------------------------------------


def test_lower_is_worse_where_it_is_declared() -> None:
    """Mirrored values give mirrored evidence."""
    higher = evidence()
    lower = evidence(Guardrail("revenue", (0.0, 1.0), 0.1, 0.05, worse="lower"))
    wrong = evidence(Guardrail("revenue", (0.0, 1.0), 0.1, 0.05))
    for phase in range(1, 7):
        arms, values = some_values(phase)
        batch(higher, [0.5, 0.5], arms, values, phase)
        batch(lower, [0.5, 0.5], arms, 1 - values, phase)
        batch(wrong, [0.5, 0.5], arms, 1 - values, phase)
    assert lower.log_evidence()[1] == pytest.approx(higher.log_evidence()[1])
    looks = [each.look() for each in (higher, lower, wrong)]
    assert [each.worse[1] for each in looks] == [True, True, False]
    assert [each.fine[1] for each in looks] == [False, False, True]
    assert looks[1].low[1] == pytest.approx(looks[0].low[1])
    assert looks[2].high[1] < 0  # better


def test_an_option_bets_only_where_it_and_the_control_are_drawn() -> None:
    of = evidence(options=3)
    rng = np.random.default_rng(5)
    for phase, weights in enumerate(([0.4, 0.3, 0.3], [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]), start=1):
        arms = rng.choice(3, size=60, p=weights)
        before = of.log_evidence() if phase > 1 else np.zeros(3)
        batch(of, weights, arms, (arms == 1) * 1.0, phase)
        grown = of.log_evidence() > before
        assert grown.tolist() == [False, phase < 3, False]
    assert of.look().worse.tolist() == [False, True, False]


def test_an_added_option_has_evidence_and_a_share_of_its_own() -> None:
    of = evidence(options=2, changes=True)
    batch(of, [0.5, 0.5], *some_values(), 1)
    before = of.log_evidence()[1]
    rng = np.random.default_rng(6)
    for phase in range(2, 8):
        arms = rng.choice(3, size=60)
        batch(of, [1 / 3] * 3, arms, (rng.random(60) < np.array([0.1, 0.1, 0.8])[arms]), phase)
    assert of.log_evidence().shape == (3,)
    assert of.log_evidence()[1] >= before
    assert np.exp(-of.levels[1:]) == pytest.approx([0.9 * 0.05, 0.1 * 0.05 / 2])
    assert of.look().worse.tolist() == [False, False, True]


def test_the_shares_of_all_options_add_up_to_alpha() -> None:
    assert guardrail_share(0.05, options=4, changes=False) == 0.05 / 4
    start = [guardrail_share(0.05, options=4, changes=True)] * 4
    added = [guardrail_share(0.05, options=4, changes=True, added=j) for j in range(1, 60)]
    assert math.fsum([*start, *added]) <= 0.05 * (1 + 1e-12)
    assert min(added) > 0


# --- drift ----------------------------------------------------------------------------------------


class ArmMeans(GuardrailEvidence):
    """A twin that compares means of options, as if each were always drawn alike."""

    def open(self, plan: Plan) -> None:
        assert plan.weights is not None
        equal = np.full(plan.arms, 1 / plan.arms)
        super().open(Plan.randomised(equal, plan.pulls, phase=plan.phase, open=True))


def found_under_drift(kind: type[GuardrailEvidence], runs: int) -> int:
    """How often an option exactly at the margin is found worse, where whoever plans draws it more
    often while the baseline is high."""
    found = 0
    for run in range(runs):
        rng = np.random.default_rng(run)
        of = kind(REFUND, options=2, control=CONTROL, changes=False)
        for phase in range(1, 16):
            high = phase % 2 == 1
            weights = [0.2, 0.8] if high else [0.8, 0.2]
            arms = rng.choice(2, size=60, p=weights)
            rates = (0.6 if high else 0.1) + REFUND.worse_by * (arms != CONTROL)
            batch(of, weights, arms, rng.random(60) < rates, phase)
        found += bool(of.log_evidence()[1] >= of.levels[1])
    return found


def test_drift_accuses_nobody() -> None:
    """With probability 1 − 10⁻⁶, a rule that keeps its promise passes."""
    runs = 60
    assert found_under_drift(GuardrailEvidence, runs) <= binom.ppf(1 - 1e-6, runs, REFUND.alpha)
    assert found_under_drift(ArmMeans, 10) == 10


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ([], "guardrails", "must be names with what is promised"),
        ({"2nd": {"bounds": [0, 1], "worse_by": 0.1}}, "guardrails", "cannot be called '2nd'"),
        ({"reward": {"bounds": [0, 1], "worse_by": 0.1}}, "guardrails", "cannot be called"),
        ({"refund": {"bounds": [0, 1]}}, "guardrails", "needs `bounds` and `worse_by`"),
        ({"refund": {"bounds": [1, 0], "worse_by": 0.1}}, "bounds", "bounds"),
        ({"refund": {"bounds": [0, 1], "worse_by": -0.1}}, "worse_by", "worse_by"),
        ({"refund": {"bounds": [0, 1], "worse_by": 1.5}}, "worse_by", "can be worse by 1.5"),
        ({"refund": {"bounds": [0, 1], "worse_by": 0.1, "alpha": 5}}, "alpha", "alpha"),
        ({"refund": {"bounds": [0, 1], "worse_by": 0.1, "action": "stop"}}, "action", "action"),
        ({"refund": {"bounds": [0, 1], "worse_by": 0.1, "worse": "up"}}, "worse", "worse"),
        ({"refund": {"bounds": [0, 1], "worse_by": 0.1, "alfa": 0.1}}, "guardrails", "'alfa'"),
    ],
)
def test_what_cannot_be_promised_is_refused(given: object, field: str, words: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        read_guardrails(given, reserved={"reward"})
    assert refused.value.field == field
    assert words in str(refused.value)
    assert refused.value.remedy


def test_guardrails_are_read_with_their_defaults() -> None:
    assert read_guardrails(None) == ()
    [read] = read_guardrails({"refund": {"bounds": [0, 1], "worse_by": 0}})
    assert read == Guardrail("refund", (0.0, 1.0), 0.0, 0.05, "retire", "higher")
