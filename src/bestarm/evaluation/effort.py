"""What an evaluation will take, before it is paid for: its rule is run on simulated tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np

from bestarm.checks import interval, positive, whole
from bestarm.defaults import DELTA
from bestarm.errors import InvalidInputError
from bestarm.evaluation.inputs import Description, Limits, Question
from bestarm.evaluation.log import policy_of
from bestarm.evaluation.preferences import Preferences
from bestarm.numerics.geometry import Array
from bestarm.policies.policy import Policy
from bestarm.policies.registry import load
from bestarm.problem import Problem
from bestarm.records import BlockPlan, Rounds, Summary
from bestarm.simulation.progress import Progress, reporting
from bestarm.tables import TextTable
from bestarm.units import decimal, plural

LEADS = (0.01, 0.02, 0.05, 0.1)  # of the range of scores
GATE_LEADS = (0.1, 0.02, 0.0, -0.02, -0.1)


class Effort(NamedTuple):
    """What it takes to find a lead, in simulated evaluations.

    Attributes:
        lead: by how much the best option leads each other one; of a gate, by how much each option
            leads the control; of preferences, the share of comparisons won less the share lost.
        judgements: the median over the simulated evaluations.
        low: the number that one in ten of them stays below.
        high: the number that one in ten of them exceeds.
        cost: the median of what they cost.
        high_cost: the cost that one in ten of them exceeds.
        decided: the share of them that end with an answer.
        spread: the median of judgements if the options are evenly spread: the second one is that
            far behind the best, the third one twice as far, and so on. None for two options, for
            gates and for preferences.
    """

    lead: float
    judgements: int
    low: int
    high: int
    cost: float
    high_cost: float
    decided: float
    spread: int | None = None


@dataclass(frozen=True)
class EvaluationPlan:
    """How many judgements an evaluation will take. Printed, it says so in words.

    Attributes:
        options: how many options there are.
        items: how many items there are.
        all_judgements: how many judgements judging everything takes.
        all_cost: what that costs.
        priced: whether a price was given; if not, a judgement costs 1.
        noise: the standard deviation that was assumed of the difference of two options' scores on
            an item.
        runs: how many evaluations were simulated for each lead.
        efforts: what each lead takes.
        assumed: what was assumed, in words.
    """

    options: int
    items: int
    all_judgements: int
    all_cost: float
    priced: bool
    noise: float
    runs: int
    efforts: tuple[Effort, ...]
    assumed: str

    def __str__(self) -> str:
        return "\n".join([self.headline, "", str(self.to_table()), "", self.assumed])

    @property
    def headline(self) -> str:
        """What judging everything takes."""
        costs = f", which cost {self.all_cost:,.6g}" if self.priced else ""
        return (
            f"{self.options} options on {plural(self.items, 'item')}: judging everything takes "
            f"{plural(self.all_judgements, 'judgement')}{costs}."
        )

    def to_table(self) -> TextTable:
        """One row per lead: the median, and the range of 8 in 10 simulated evaluations."""
        headings = ["lead", "judgements", "8 in 10 take", "of all"]
        headings += ["cost", "9 in 10 cost at most"] if self.priced else []
        spread = any(each.spread is not None for each in self.efforts)
        headings += ["if evenly spread"] if spread else []
        undecided = any(each.decided < 1 for each in self.efforts)
        headings += ["decided"] if undecided else []
        rows = []
        for each in self.efforts:
            share = _percent(each.judgements / self.all_judgements)
            row = [f"{each.lead:g}".replace("-", "−"), f"{each.judgements:,}"]
            row += [f"{each.low:,} to {each.high:,}", share]
            row += [f"{each.cost:,.4g}", f"{each.high_cost:,.4g}"] if self.priced else []
            row += [f"{each.spread:,}"] if each.spread is not None else []
            rows.append([*row, _percent(each.decided)] if undecided else row)
        return TextTable.of(headings, rows)


def plan_evaluation(
    options: Sequence[Description],
    items: Sequence[Description],
    *,
    delta: float = DELTA,
    bounds: tuple[float, float] = (0, 1),
    tolerance: float = 0.0,
    control: str | None = None,
    gate: bool = False,
    compare: bool = False,
    price: float | Mapping[str, float] = 1.0,
    noise: float | None = None,
    leads: Sequence[float] | None = None,
    runs: int = 10,
    seed: int = 0,
    progress: Progress = False,
) -> EvaluationPlan:
    """Say how many judgements an evaluation will take, and what they cost, before it is paid for.

    The rule of `evaluate` is run on simulated tables of scores with as many options and items, one
    judgement at a time; nothing is judged or stored. One option, drawn at random, leads each other
    one by the same amount over all items, which takes most: if some are farther behind, they are
    dropped earlier. Of a gate, each option leads the control by that amount.

    Args:
        options: what would be compared.
        items: what options would be judged on; `["any"] * 500` stands for 500 items.
        delta: as of `evaluate`, like all arguments up to `compare`.
        bounds: the lowest and the highest score.
        tolerance: how much worse than the best, or of a gate than the control, an option may be.
        control: the name of the option in use now.
        gate: whether it is a gate.
        compare: whether options are compared by preference.
        price: what a judgement costs: one number, or one for each option by its name.
        noise: a guess of the standard deviation, over the items, of the difference between the
            scores of two good options. If scores are right or wrong, it is the square root of the
            share of items on which one is right and the other wrong. If left out, it is half the
            range of the scores: that share is a quarter. Simulated scores are right or wrong, so
            the share is never below the lead. Of preferences it is the square root of the share of
            comparisons in which one is preferred, 1 if left out.
        leads: the leads to try, in units of the score; 1, 2, 5 and 10 hundredths of the range if
            left out, and for a gate 10 and 2 hundredths either way, and none.
        runs: how many evaluations are simulated for each lead.
        seed: of the simulation.
        progress: True for a bar on stderr, or a function of the evaluations simulated and to be
            simulated.

    Raises:
        InvalidInputError: an argument is invalid.

    Example:
        >>> from bestarm.evaluation import plan_evaluation
        >>> plan = plan_evaluation(["a", "b"], ["any"] * 300, leads=[0.3], runs=5)
        >>> plan.all_judgements, plan.efforts[0].high < 200
        (600, True)
    """
    low, high = interval(bounds, "bounds")
    question = Question(options, items, delta, (low, high), tolerance, control, gate, compare)
    prices = Limits(question, 1, 0, price, None, None).prices
    width = high - low
    guess = positive(width * (1.0 if compare else 0.5) if noise is None else noise, "noise")
    shares = GATE_LEADS if gate else LEADS
    tried = [width * share for share in shares] if leads is None else list(leads)
    for field, value in [("noise", guess), *(("leads", lead) for lead in tried)]:
        if not abs(value) <= width:
            raise InvalidInputError(
                f"`{field}` must be at most {width:g}, the range of the scores; got {value!r}.",
                field=field,
                value=value,
                remedy="Leave it out for a usual value, or give `bounds` (`--bounds LOW HIGH`).",
            )
    whole(runs, "runs", least=1)
    simulate = partial(_simulate, question, prices, guess)
    efforts: list[Effort] = []
    with reporting(progress, runs * len(tried), "planning") as report:
        for lead in tried:
            found, spread = [], []
            for run in range(len(efforts) * runs, (len(efforts) + 1) * runs):
                found.append(simulate(lead, np.random.default_rng([seed, run])))
                if len(options) > 2 and not (gate or compare):
                    made, _, _ = simulate(lead, np.random.default_rng([seed, run]), spread=True)
                    spread.append(made)
                report(run + 1)
            efforts.append(_effort(lead, np.array(found), spread))
    all_cost = prices[0] * question.pairs if compare else sum(prices) * len(items)
    return EvaluationPlan(
        options=len(options),
        items=len(items),
        all_judgements=question.pairs,
        all_cost=float(all_cost),
        priced=any(each != 1 for each in prices),
        noise=guess,
        runs=runs,
        efforts=tuple(efforts),
        assumed=_assumed(question, guess, runs),
    )


def _effort(lead: float, found: Array, spread: list[int]) -> Effort:
    """What the simulated evaluations of one lead took: rows of judgements, cost, and decided."""
    low, median, high = np.rint(np.quantile(found[:, 0], (0.1, 0.5, 0.9))).astype(int).tolist()
    cost, high_cost = np.quantile(found[:, 1], (0.5, 0.9)).tolist()
    decided = float(found[:, 2].mean())
    middle = round(float(np.median(spread))) if spread else None
    return Effort(lead, median, low, high, cost, high_cost, decided, middle)


def _simulate(
    question: Question,
    prices: Sequence[Fraction],
    noise: float,
    lead: float,
    rng: np.random.Generator,
    *,
    spread: bool = False,
) -> tuple[int, float, bool]:
    """The judgements of a simulated evaluation, their cost, and whether it ends with an answer."""
    name, options = policy_of(question)
    policy: Policy = load(name)(Problem(question.labels, delta=question.delta), **options)
    if isinstance(policy, Preferences):
        judged = _compare_all(policy, lead, noise, rng)
        cost = float(judged * prices[0])
    else:
        made = judge_table(policy, simulated_table(question, lead, noise, rng, spread=spread))
        judged, cost = int(made.sum()), float(made @ np.array(prices, dtype=float))
    answer = policy.recommend()
    return judged, cost, answer.final or answer.reason == "cycle"


def judge_table(policy: Policy, rows: Array) -> Array:
    """Judge a table of scores in its order as a policy asks; how often each option was judged."""
    seen, made = 0, np.zeros(rows.shape[1])
    while (plan := policy.plan()) is not None:
        assert isinstance(plan, BlockPlan)
        told = rows[seen : seen + plan.rounds][:, plan.blocks[0]]
        policy.update(Rounds.of(plan, np.zeros(len(told), dtype=int), told))
        seen += len(told)
        made[plan.blocks[0]] += len(told)
    return made


def simulated_table(
    question: Question,
    lead: float,
    noise: float,
    rng: np.random.Generator,
    *,
    spread: bool = False,
) -> Array:
    """Scores in random order in which one option leads each other one by just so much.

    On some items, drawn for each option anew, options are right (the highest score) or wrong; on
    the others all are wrong. Of two that are equally good one is right and the other wrong on half
    of these items, and noise² is that share of all items. Of a gate all options but the control
    lead it. If `spread`, each option leads the next one by so much, until one is never right.
    """
    items, options = len(question.items), len(question.options)
    low, high = question.bounds
    ahead = round(items * lead / (high - low)) or int(np.sign(lead))  # by so many items
    open_items = min(items, max(round(2 * items * (noise / (high - low)) ** 2), 2 * abs(ahead)))
    places = rng.permutation(options)  # of the options, the best first
    if question.gate and question.control is not None:
        places[:] = 0
        places[question.labels.index(question.control)] = 1
    behind = ahead * (places if spread else np.minimum(places, 1))
    right = np.maximum((open_items + ahead) // 2 - behind, 0)
    table = np.zeros((items, options))
    table[:open_items] = np.arange(open_items)[:, None] < right
    table[:open_items] = rng.permuted(table[:open_items], axis=0)
    return np.asarray(low + (high - low) * rng.permutation(table))


def _compare_all(policy: Preferences, lead: float, noise: float, rng: np.random.Generator) -> int:
    """Compare options, of which one is preferred to each other one by so much more often."""
    count = policy.problem.arms
    best, preferred = int(rng.integers(count)), max(noise**2, abs(lead))
    while (plan := policy.plan()) is not None:
        first = rng.permutation(np.repeat(policy.pairs[-1], [plan.pulls // 2, -(-plan.pulls // 2)]))
        second = sum(policy.pairs[-1]) - first
        gain = lead * ((first == best).astype(float) - (second == best))
        drawn = rng.random(plan.pulls)
        won, lost = drawn < (preferred + gain) / 2, drawn >= 1 - (preferred - gain) / 2
        policy.update(Summary.from_pulls(first, won.astype(float) - lost, size=count))
    return policy.recommend().pulls


def _assumed(question: Question, noise: float, runs: int) -> str:
    """What a plan assumes."""
    who = "One option leads each other one by this much, which takes most."
    spread = f"The scores of two options differ with a standard deviation of {noise:g} (`noise`)."
    if question.gate:
        who = "Each option leads the control by this much."
    elif question.compare:
        who = (
            "One option is preferred to each other one by this share of comparisons, won less lost."
        )
        spread = f"One of two is preferred in {_percent(noise**2)} of the comparisons."
    elif len(question.options) > 2:
        who += " Evenly spread: the second is this far behind the best, the third twice as far, …"
    return (
        f"Medians and ranges of {runs} simulated evaluations per lead. {who}\n{spread} Calls in "
        "flight when the answer is clear, and calls that fail, come on top."
    )


def _percent(share: float) -> str:
    return f"{decimal(100 * share, 0)} %"
