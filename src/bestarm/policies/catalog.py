"""The catalog of policies: every one of bestarm, with what users, tables and tests must know.

This is the only list of them. `registry` reads it, and adds those of other installed packages.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, Literal

from bestarm.policies.policy import Policy

Options = Mapping[str, Any]

# x·θ + ν_t + noise; x·θ + noise; a fixed mean per arm; means that move, compared by their average.
Model = Literal["drift", "linear", "means", "non-stationary"]
MODEL_WORDS: Mapping[Model, str] = {
    "drift": "any drift",
    "linear": "linear, no drift",
    "means": "fixed means, no drift",
    "non-stationary": "means that move",
}


@dataclass(frozen=True)
class PolicyInfo:
    """A policy as users name it.

    Attributes:
        name: its name on the command line, over HTTP and in stored experiments.
        import_path: its class, as `module:Class`. It is imported when it is needed.
        summary: what it is, in a few words.
        options: options of the constructor that the name stands for.
        truths: options that only a simulation knows, each with the attribute of the world.
        example: options with which it can be tried; all that it cannot do without.
        proven: whether a final answer comes with a proven error probability.
        blind: whether it ignores the baseline, and can be misled by it.
        model: what it assumes of rewards; see `Model`.
        budgeted: whether it stops when its pulls are spent, which are its `budget` where it has
            that option, and not when it is sure.
        seeks_reward: whether it is made to collect reward while it learns, and is measured by its
            regret.
        reference: where it was published; empty for methods of bestarm's own.
        transductive: whether targets may be other than the source arms.
        plannable: whether an experiment can be planned with it, knowing only the problem.
        live: whether a real experiment can use it.
        blocks: whether a round may pull several arms: whether it takes the option `block`.
    """

    name: str
    import_path: str
    summary: str
    options: Options = field(default_factory=dict, hash=False)
    truths: Mapping[str, str] = field(default_factory=dict, hash=False)
    example: Options = field(default_factory=dict, hash=False)
    proven: bool = False
    blind: bool = False
    model: Model = "drift"
    budgeted: bool = False
    seeks_reward: bool = False
    reference: str = ""
    transductive: bool = True
    plannable: bool = True
    live: bool = True
    blocks: bool = False

    @property
    def factory(self) -> Callable[..., Policy]:
        """The class, without the options that the name stands for."""
        module, _, attribute = self.import_path.partition(":")
        policy: Callable[..., Policy] = getattr(import_module(module), attribute)
        return policy

    @property
    def method(self) -> Callable[..., Policy]:
        """What makes the policy from a problem."""
        return partial(self.factory, **self.options) if self.options else self.factory

    @property
    def required(self) -> tuple[str, ...]:
        """The options that one must give."""
        parameters = list(inspect.signature(self.factory).parameters.values())[1:]
        known = {"seed", *self.options, *self.truths}
        return tuple(
            each.name
            for each in parameters
            if each.default is each.empty
            and each.kind in {each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD}
            and each.name not in known
        )


# Examples are with so many pulls, or so little noise, that a run is short.
_BUDGET: Options = {"budget": 5000}
_QUIET: Options = {"sigma": 0.05}
_BOUNDS: Options = {"bounds": (-30, 30)}

_PAPER, _KIM = "Kim (2026)", "Kim, Kim and Oh (2025)"
_on_means = partial(PolicyInfo, blind=True, model="means", transductive=False)
_with_budget = partial(PolicyInfo, example=_BUDGET, budgeted=True, plannable=False)

MAIN = (
    PolicyInfo(
        "anytime",
        "bestarm.policies.anytime.rule:AnytimeBAI",
        "proven at every look, under any drift",
        proven=True,
        blocks=True,
    ),
    PolicyInfo(
        "sp-bai",
        "bestarm.policies.spbai:SPBAI",
        "SP-BAI as published, tuned",
        reference=_PAPER,
    ),
    PolicyInfo(
        "sbe",
        "bestarm.policies.sbe:SBE",
        "phases with an anchored design, tuned",
        transductive=False,
        reference=_KIM,
    ),
    PolicyInfo(
        "rage",
        "bestarm.policies.rage:RAGE",
        "for linear rewards without drift",
        blind=True,
        model="linear",
        reference="Fiez, Jain, Jamieson and Ratliff (2019)",
    ),
    _on_means(
        "lucb",
        "bestarm.policies.lucb:LUCB",
        "compares means, without drift",
        example={"sigma": 0.5},
        reference="Kalyanakrishnan, Tewari, Auer and Stone (2012)",
    ),
    _on_means(
        "ae",
        "bestarm.policies.action_elimination:ActionElimination",
        "drops options by their means, without drift",
        example={"sigma": 0.5},
        reference="Even-Dar, Mannor and Mansour (2006)",
    ),
    _on_means(
        "bernstein",
        "bestarm.policies.bernstein:BernsteinElimination",
        "drops arms by means and variances of bounded rewards, without drift",
        example=_BOUNDS,
        proven=True,
        plannable=False,
    ),
    PolicyInfo(
        "paired-tests",
        "bestarm.policies.paired:PairedTests",
        "all options in every round, compared in pairs, under any drift",
        example=_BOUNDS,
        proven=True,
        transductive=False,
        plannable=False,
        live=False,
    ),
    _with_budget(
        "sequential-halving",
        "bestarm.policies.halving:SequentialHalving",
        "a fixed number of pulls, under any drift",
    ),
    _with_budget(
        "deo",
        "bestarm.policies.one_shot:DEO",
        "one regression with a fixed number of pulls",
        reference=_KIM,
    ),
    _with_budget(
        "uniform",
        "bestarm.policies.one_shot:Uniform",
        "every arm equally often, then the best mean",
        blind=True,
        model="means",
        transductive=False,
    ),
    PolicyInfo(
        "fixed",
        "bestarm.policies.fixed:Fixed",
        "the probabilities of a protocol; adapts nothing and claims nothing",
        example={"probabilities": "equal", "max_pulls": 200},
        budgeted=True,
        transductive=False,
        plannable=False,
    ),
    PolicyInfo(
        "g-opt",
        "bestarm.policies.one_shot:GOpt",
        "told the true gap: for comparison in simulations",
        truths={"gap": "gap"},
        example={"gap": 0.5},
        plannable=False,
        live=False,
        reference=_KIM,
    ),
)

# The field's methods, for comparison in simulations: by family, in the order of their years.
_published = partial(PolicyInfo, plannable=False, live=False)
_linear = partial(_published, blind=True, model="linear")
_linear_rule = partial(_linear, example={"sigma": 0.2}, proven=True)
_means = partial(_on_means, example={"sigma": 0.1}, plannable=False, live=False)
_budget = partial(_linear, example=_BUDGET, budgeted=True)
_industry = partial(_published, transductive=False)
_centered = partial(_published, budgeted=True, seeks_reward=True, example={"budget": 100})
_SOARE = "Soare, Lazaric and Munos (2014)"
_KATZ_SAMUELS = "Katz-Samuels, Jain, Karnin and Jamieson (2020)"
_XIONG = "Xiong, Camilleri, Fazel, Jain and Jamieson (2024)"

PUBLISHED = (
    _linear(
        "xy-static",
        "bestarm.field.xy_static:XYStatic",
        "pulls for all contrasts alike, without drift",
        example=_QUIET,
        proven=True,
        reference=_SOARE,
    ),
    _linear(
        "xy-adaptive",
        "bestarm.field.xy_adaptive:XYAdaptive",
        "pulls for the contrasts of options left, without drift",
        proven=True,
        reference=_SOARE,
    ),
    _linear(
        "xy-oracle",
        "bestarm.field.xy_static:XYOracle",
        "told the truth: for comparison in simulations",
        truths={"theta": "theta"},
        example={"theta": 1.0, **_QUIET},
        proven=True,
        reference=_SOARE,
    ),
    _linear(
        "alba",
        "bestarm.field.alba:ALBA",
        "halves the number of options in rounds, without drift",
        transductive=False,
        reference="Tao, Blanco and Zhou (2018)",
    ),
    _linear(
        "peace",
        "bestarm.field.peace:Peace",
        "phases as long as the width of the options left, without drift",
        reference=_KATZ_SAMUELS,
    ),
    _linear_rule(
        "lingape",
        "bestarm.field.lingape:LinGapE",
        "tells the leader from its most ambiguous rival, for linear rewards without drift",
        reference="Xu, Honda and Sugiyama (2018)",
    ),
    _linear_rule(
        "lazy-tas",
        "bestarm.field.lazy_tas:LazyTrackAndStop",
        "tracks the optimal allocation, for linear rewards without drift",
        reference="Jedra and Proutière (2020)",
    ),
    _linear_rule(
        "lingame",
        "bestarm.field.lingame:LinGame",
        "learns the allocation in a game, for linear rewards without drift",
        reference="Degenne, Ménard, Shang and Valko (2020)",
    ),
    _linear_rule(
        "lingame-c",
        "bestarm.field.lingame:LinGameC",
        "as LinGame, with one learner over answers and arms, without drift",
        reference="Degenne, Ménard, Shang and Valko (2020)",
    ),
    _linear_rule(
        "fws",
        "bestarm.field.fws:FrankWolfeSampling",
        "one step of Frank–Wolfe per pull, for linear rewards without drift",
        reference="Wang, Tzeng and Proutière (2021)",
    ),
    _means(
        "lil-ucb",
        "bestarm.field.lil_ucb:LilUCB",
        "upper bounds by the iterated logarithm, without drift",
        reference="Jamieson, Malloy, Nowak and Bubeck (2014)",
    ),
    _means(
        "kl-lucb",
        "bestarm.field.kl_lucb:KLLUCB",
        "bounds from a divergence, two arms per round, without drift",
        proven=True,
        reference="Kaufmann and Kalyanakrishnan (2013)",
    ),
    _means(
        "track-and-stop",
        "bestarm.field.track_and_stop:TrackAndStop",
        "tracks the best proportions for the means so far, without drift",
        reference="Garivier and Kaufmann (2016)",
    ),
    _means(
        "eb-tci",
        "bestarm.field.eb_tci:EBTCI",
        "the leader or its challenger, without drift",
        proven=True,
        reference="Jourdan, Degenne, Baudry, de Heide and Kaufmann (2022)",
    ),
    _budget(
        "g-bai",
        "bestarm.field.g_bai:GBAI",
        "one G-optimal design; best on average",
        model="non-stationary",
        reference=_XIONG,
    ),
    _budget(
        "p1-rage",
        "bestarm.field.p1_rage:P1RAGE",
        "robust to moving means, quick without",
        model="non-stationary",
        reference=_XIONG,
    ),
    _budget(
        "p1-peace",
        "bestarm.field.p1_rage:P1Peace",
        "robust as P1-RAGE, with Peace's elimination",
        model="non-stationary",
        reference=_XIONG,
    ),
    _budget(
        "od-linbai",
        "bestarm.field.od_linbai:ODLinBAI",
        "halves the dimension, by G-optimal designs",
        transductive=False,
        reference="Yang and Tan (2022)",
    ),
    _budget(
        "gse",
        "bestarm.field.gse:GSE",
        "halves the arms, by G-optimal designs",
        transductive=False,
        reference="Azizi, Kveton and Ghavamzadeh (2022)",
    ),
    _budget(
        "bayes-gap",
        "bestarm.field.bayes_gap:BayesGap",
        "two rivals by their posterior",
        example={"budget": 300},  # one plan per pull
        transductive=False,
        reference="Hoffman, Shahriari and de Freitas (2014)",
    ),
    _budget(
        "p1",
        "bestarm.field.p1:P1",
        "draws arms by rank; best on average",
        example={"budget": 300},  # one plan per pull
        blind=False,
        model="non-stationary",
        transductive=False,
        reference="Abbasi-Yadkori, Bartlett, Gabillon, Malek and Valko (2018)",
    ),
    _budget(
        "pss",
        "bestarm.field.pss:PSS",
        "random halving, under corruption",
        blind=False,
        model="means",
        transductive=False,
        reference="Zhong, Cheung and Tan (2021)",
    ),
    _budget(
        "peace-budget",
        "bestarm.field.peace_budget:PeaceBudget",
        "halves the width of the options left, without drift",
        reference=_KATZ_SAMUELS,
    ),
    _industry(
        "epoch-stratified",
        "bestarm.field.industry:EpochStratified",
        "tests differences within epochs of equal shares",
        reference="Optimizely",
    ),
    _industry(
        "period-thompson",
        "bestarm.field.industry:PeriodThompson",
        "shares by the chance to be the best, with period weights",
        reference="GrowthBook",
    ),
    _centered(
        "action-centered",
        "bestarm.field.centered:ActionCentered",
        "posterior draws against the first arm, under any drift",
        reference="Greenewald, Tewari, Klasnja and Murphy (2017)",
    ),
    _centered(
        "bose",
        "bestarm.field.centered:BOSE",
        "drops arms while it seeks reward, under any drift",
        reference="Krishnamurthy, Wu and Syrgkanis (2018)",
    ),
    _centered(
        "kim-paik",
        "bestarm.field.centered:KimPaik",
        "posterior draws with centered features, under any drift",
        reference="Kim and Paik (2019)",
    ),
)

BUILT_IN = (*MAIN, *PUBLISHED)
