"""The field's published methods, for comparison: by family, in the order of their years."""

from __future__ import annotations

from functools import partial

from bestarm.policies.info import Options, PolicyInfo

_BUDGET: Options = {"budget": 5000}
# Rules that make a plan of every pull are tried with few of them.
_FEW: Options = {"budget": 300}
_SHORT: Options = {"budget": 100}
_PULLS: Options = {"sigma": 0.1}
_QUICK: Options = {"sigma": 0.2}  # few pulls
_QUIET: Options = {"sigma": 0.05}

_published = partial(PolicyInfo, plannable=False, live=False)

LINEAR = (
    _published(
        "xy-static",
        "bestarm.policies.linear.xy_static:XYStatic",
        "pulls for all contrasts alike, without drift",
        example=_QUIET,
        proven=True,
        blind=True,
        model="linear",
        reference="Soare, Lazaric and Munos (2014)",
    ),
    _published(
        "xy-adaptive",
        "bestarm.policies.linear.xy_adaptive:XYAdaptive",
        "pulls for the contrasts of options left, without drift",
        proven=True,
        blind=True,
        model="linear",
        reference="Soare, Lazaric and Munos (2014)",
    ),
    _published(
        "xy-oracle",
        "bestarm.policies.linear.xy_static:XYOracle",
        "told the truth: for comparison in simulations",
        truths={"theta": "theta"},
        example={"theta": 1.0, **_QUIET},
        proven=True,
        blind=True,
        model="linear",
        reference="Soare, Lazaric and Munos (2014)",
    ),
    _published(
        "alba",
        "bestarm.policies.linear.alba:ALBA",
        "halves the number of options in rounds, without drift",
        blind=True,
        transductive=False,
        model="linear",
        reference="Tao, Blanco and Zhou (2018)",
    ),
    _published(
        "peace",
        "bestarm.policies.linear.peace:Peace",
        "phases as long as the width of the options left, without drift",
        blind=True,
        model="linear",
        reference="Katz-Samuels, Jain, Karnin and Jamieson (2020)",
    ),
    _published(
        "lingape",
        "bestarm.policies.linear.lingape:LinGapE",
        "tells the leader from its most ambiguous rival, for linear rewards without drift",
        example=_QUICK,
        proven=True,
        blind=True,
        model="linear",
        reference="Xu, Honda and Sugiyama (2018)",
    ),
    _published(
        "lazy-tas",
        "bestarm.policies.linear.lazy:LazyTrackAndStop",
        "tracks the optimal allocation, for linear rewards without drift",
        example=_QUICK,
        proven=True,
        blind=True,
        model="linear",
        reference="Jedra and Proutière (2020)",
    ),
    _published(
        "lingame",
        "bestarm.policies.linear.lingame:LinGame",
        "learns the allocation in a game, for linear rewards without drift",
        example=_QUICK,
        proven=True,
        blind=True,
        model="linear",
        reference="Degenne, Ménard, Shang and Valko (2020)",
    ),
    _published(
        "lingame-c",
        "bestarm.policies.linear.lingame:LinGameC",
        "as LinGame, with one learner over answers and arms, without drift",
        example=_QUICK,
        proven=True,
        blind=True,
        model="linear",
        reference="Degenne, Ménard, Shang and Valko (2020)",
    ),
    _published(
        "fws",
        "bestarm.policies.linear.fws:FrankWolfeSampling",
        "one step of Frank–Wolfe per pull, for linear rewards without drift",
        example=_QUICK,
        proven=True,
        blind=True,
        model="linear",
        reference="Wang, Tzeng and Proutière (2021)",
    ),
)

UNSTRUCTURED = (
    _published(
        "lil-ucb",
        "bestarm.policies.means.lil_ucb:LilUCB",
        "upper bounds by the iterated logarithm, without drift",
        example=_PULLS,
        blind=True,
        model="means",
        reference="Jamieson, Malloy, Nowak and Bubeck (2014)",
        transductive=False,
    ),
    _published(
        "kl-lucb",
        "bestarm.policies.means.kl_lucb:KLLUCB",
        "bounds from a divergence, two arms per round, without drift",
        example=_PULLS,
        proven=True,
        blind=True,
        model="means",
        reference="Kaufmann and Kalyanakrishnan (2013)",
        transductive=False,
    ),
    _published(
        "track-and-stop",
        "bestarm.policies.means.track_and_stop:TrackAndStop",
        "tracks the best proportions for the means so far, without drift",
        example=_PULLS,
        blind=True,
        model="means",
        reference="Garivier and Kaufmann (2016)",
        transductive=False,
    ),
    _published(
        "eb-tci",
        "bestarm.policies.means.eb_tci:EBTCI",
        "the leader or its challenger, without drift",
        example=_PULLS,
        proven=True,
        blind=True,
        model="means",
        reference="Jourdan, Degenne, Baudry, de Heide and Kaufmann (2022)",
        transductive=False,
    ),
)

BUDGET = (
    _published(
        "g-bai",
        "bestarm.policies.budget.gbai:GBAI",
        "one G-optimal design; best on average",
        example=_BUDGET,
        blind=True,
        model="non-stationary",
        budgeted=True,
        reference="Xiong, Camilleri, Fazel, Jain and Jamieson (2024)",
    ),
    _published(
        "p1-rage",
        "bestarm.policies.budget.p1_rage:P1RAGE",
        "robust to moving means, quick without",
        example=_BUDGET,
        blind=True,
        model="non-stationary",
        budgeted=True,
        reference="Xiong, Camilleri, Fazel, Jain and Jamieson (2024)",
    ),
    _published(
        "p1-peace",
        "bestarm.policies.budget.p1_peace:P1Peace",
        "robust as P1-RAGE, with Peace's elimination",
        example=_BUDGET,
        blind=True,
        model="non-stationary",
        budgeted=True,
        reference="Xiong, Camilleri, Fazel, Jain and Jamieson (2024)",
    ),
    _published(
        "od-linbai",
        "bestarm.policies.budget.odlinbai:ODLinBAI",
        "halves the dimension, by G-optimal designs",
        example=_BUDGET,
        blind=True,
        model="linear",
        budgeted=True,
        reference="Yang and Tan (2022)",
        transductive=False,
    ),
    _published(
        "gse",
        "bestarm.policies.budget.gse:GSE",
        "halves the arms, by G-optimal designs",
        example=_BUDGET,
        blind=True,
        model="linear",
        budgeted=True,
        reference="Azizi, Kveton and Ghavamzadeh (2022)",
        transductive=False,
    ),
    _published(
        "bayes-gap",
        "bestarm.policies.budget.bayes_gap:BayesGap",
        "two rivals by their posterior",
        example=_FEW,
        blind=True,
        model="linear",
        budgeted=True,
        reference="Hoffman, Shahriari and de Freitas (2014)",
        transductive=False,
    ),
    _published(
        "p1",
        "bestarm.policies.budget.p1:P1",
        "draws arms by rank; best on average",
        example=_FEW,
        model="non-stationary",
        budgeted=True,
        reference="Abbasi-Yadkori, Bartlett, Gabillon, Malek and Valko (2018)",
        transductive=False,
    ),
    _published(
        "pss",
        "bestarm.policies.budget.pss:PSS",
        "random halving, under corruption",
        example=_BUDGET,
        model="means",
        budgeted=True,
        reference="Zhong, Cheung and Tan (2021)",
        transductive=False,
    ),
    _published(
        "peace-budget",
        "bestarm.policies.budget.peace:PeaceBudget",
        "halves the width of the options left, without drift",
        example=_BUDGET,
        blind=True,
        model="linear",
        budgeted=True,
        reference="Katz-Samuels, Jain, Karnin and Jamieson (2020)",
    ),
)

INDUSTRY = (
    _published(
        "epoch-stratified",
        "bestarm.policies.industry.epochs:EpochStratified",
        "tests differences within epochs of equal shares",
        reference="Optimizely",
        transductive=False,
    ),
    _published(
        "period-thompson",
        "bestarm.policies.industry.thompson:PeriodThompson",
        "shares by the chance to be the best, with period weights",
        reference="GrowthBook",
        transductive=False,
    ),
)

CENTERED = (
    _published(
        "action-centered",
        "bestarm.policies.centered.action_centered:ActionCentered",
        "posterior draws against the first arm, under any drift",
        example=_SHORT,
        budgeted=True,
        seeks_reward=True,
        reference="Greenewald, Tewari, Klasnja and Murphy (2017)",
    ),
    _published(
        "bose",
        "bestarm.policies.centered.bose:BOSE",
        "drops arms while it seeks reward, under any drift",
        example=_SHORT,
        budgeted=True,
        seeks_reward=True,
        reference="Krishnamurthy, Wu and Syrgkanis (2018)",
    ),
    _published(
        "kim-paik",
        "bestarm.policies.centered.kim_paik:KimPaik",
        "posterior draws with centered features, under any drift",
        example=_SHORT,
        budgeted=True,
        seeks_reward=True,
        reference="Kim and Paik (2019)",
    ),
)

PUBLISHED = (*LINEAR, *UNSTRUCTURED, *BUDGET, *INDUSTRY, *CENTERED)
