"""The policies of bestarm: the only place that lists them."""

from __future__ import annotations

from bestarm.policies.info import Options, PolicyInfo

_SHARP: Options = {"design": "centered", "stability": "actual"}
_ROUNDS: Options = {"sigma": 0.5}  # fewer rounds than with the declared noise
_BUDGET: Options = {"budget": 5000}
_PULLS: Options = {"sigma": 0.1}  # fewer still: each is a plan
_SHORT: Options = {"budget": 100}

HOUSE = (
    PolicyInfo(
        "anytime",
        "bestarm.policies.anytime.rule:AnytimeBAI",
        "proven at every look, under any drift",
        proven=True,
        blocks=True,
        effort=3.0,
    ),
    PolicyInfo(
        "sp-bai-sharp",
        "bestarm.policies.phased.spbai:SPBAI",
        "SP-BAI with sharper designs, tuned",
        options=_SHARP,
        reference="Kim, Kim and Oh (2025)",
    ),
    PolicyInfo(
        "sp-bai",
        "bestarm.policies.phased.spbai:SPBAI",
        "SP-BAI as published, tuned",
        effort=10.0,
        reference="Kim, Kim and Oh (2025)",
    ),
    PolicyInfo(
        "sbe",
        "bestarm.policies.phased.sbe:SBE",
        "what SP-BAI improves on, for comparison",
        transductive=False,
        effort=30.0,
        reference="Kim, Kim and Oh (2025)",
    ),
    PolicyInfo(
        "rage",
        "bestarm.policies.phased.rage:RAGE",
        "for linear rewards without drift",
        blind=True,
        effort=10.0,
        model="linear",
        reference="Fiez, Jain, Jamieson and Ratliff (2019)",
    ),
    PolicyInfo(
        "lucb",
        "bestarm.policies.index.lucb:LUCB",
        "compares means, without drift",
        example=_ROUNDS,
        blind=True,
        transductive=False,
        effort=6.0,
        model="means",
        reference="Kalyanakrishnan, Tewari, Auer and Stone (2012)",
    ),
    PolicyInfo(
        "ae",
        "bestarm.policies.index.action_elimination:ActionElimination",
        "drops options by their means, without drift",
        example=_ROUNDS,
        blind=True,
        transductive=False,
        effort=30.0,
        model="means",
        reference="Even-Dar, Mannor and Mansour (2006)",
    ),
    PolicyInfo(
        "bernstein",
        "bestarm.policies.index.bernstein:BernsteinElimination",
        "drops arms by means and variances of bounded rewards, without drift",
        example={"bounds": (-30, 30)},
        proven=True,
        blind=True,
        transductive=False,
        plannable=False,
        model="means",
    ),
    PolicyInfo(
        "paired-tests",
        "bestarm.policies.index.paired:PairedTests",
        "all options in every round, compared in pairs, under any drift",
        example={"bounds": (-30, 30)},
        proven=True,
        transductive=False,
        plannable=False,
        live=False,
    ),
    PolicyInfo(
        "sequential-halving",
        "bestarm.policies.phased.halving:SequentialHalving",
        "a fixed number of pulls, under any drift",
        example=_BUDGET,
        plannable=False,
        blocks=True,
        budgeted=True,
    ),
    PolicyInfo(
        "deo",
        "bestarm.policies.oneshot.deo:DEO",
        "one regression with a fixed number of pulls",
        example=_BUDGET,
        plannable=False,
        budgeted=True,
        reference="Kim, Kim and Oh (2025)",
    ),
    PolicyInfo(
        "uniform",
        "bestarm.policies.oneshot.uniform:Uniform",
        "every arm equally often, then the best mean",
        example=_BUDGET,
        blind=True,
        transductive=False,
        plannable=False,
        model="means",
        budgeted=True,
    ),
    PolicyInfo(
        "g-opt",
        "bestarm.policies.oneshot.gopt:GOpt",
        "told the true gap: for comparison in simulations",
        truths={"gap": "gap"},
        example={"gap": 0.5},
        plannable=False,
        live=False,
        reference="Kim, Kim and Oh (2025)",
    ),
)

LINEAR: tuple[PolicyInfo, ...] = ()

UNSTRUCTURED = (
    PolicyInfo(
        "lil-ucb",
        "bestarm.policies.index.lil_ucb:LilUCB",
        "upper bounds by the iterated logarithm, without drift",
        example=_PULLS,
        blind=True,
        model="means",
        reference="Jamieson, Malloy, Nowak and Bubeck (2014)",
        transductive=False,
        plannable=False,
        live=False,
    ),
    PolicyInfo(
        "kl-lucb",
        "bestarm.policies.index.kl_lucb:KLLUCB",
        "bounds from a divergence, two arms per round, without drift",
        example=_PULLS,
        proven=True,
        blind=True,
        model="means",
        reference="Kaufmann and Kalyanakrishnan (2013)",
        transductive=False,
        plannable=False,
        live=False,
    ),
    PolicyInfo(
        "track-and-stop",
        "bestarm.policies.index.track_and_stop:TrackAndStop",
        "tracks the best proportions for the means so far, without drift",
        example=_PULLS,
        blind=True,
        model="means",
        reference="Garivier and Kaufmann (2016)",
        transductive=False,
        plannable=False,
        live=False,
    ),
    PolicyInfo(
        "eb-tci",
        "bestarm.policies.index.eb_tci:EBTCI",
        "the leader or its challenger, without drift",
        example=_PULLS,
        proven=True,
        blind=True,
        model="means",
        reference="Jourdan, Degenne, Baudry, de Heide and Kaufmann (2022)",
        transductive=False,
        plannable=False,
        live=False,
    ),
)

BUDGET: tuple[PolicyInfo, ...] = ()

INDUSTRY = (
    PolicyInfo(
        "epoch-stratified",
        "bestarm.policies.industry.epochs:EpochStratified",
        "tests differences within epochs of equal shares",
        reference="Optimizely (2018)",
        transductive=False,
        plannable=False,
        live=False,
    ),
    PolicyInfo(
        "period-thompson",
        "bestarm.policies.industry.thompson:PeriodThompson",
        "shares by the chance to be the best, with period weights",
        reference="GrowthBook (2024)",
        transductive=False,
        plannable=False,
        live=False,
    ),
)

CENTERED = (
    PolicyInfo(
        "action-centered",
        "bestarm.policies.centered.action_centered:ActionCentered",
        "posterior draws against the first arm, under any drift",
        example=_SHORT,
        budgeted=True,
        reference="Greenewald, Tewari, Klasnja and Murphy (2017)",
        plannable=False,
        live=False,
    ),
    PolicyInfo(
        "bose",
        "bestarm.policies.centered.bose:BOSE",
        "drops arms while it seeks reward, under any drift",
        example=_SHORT,
        budgeted=True,
        reference="Krishnamurthy, Wu and Syrgkanis (2018)",
        plannable=False,
        live=False,
    ),
    PolicyInfo(
        "kim-paik",
        "bestarm.policies.centered.kim_paik:KimPaik",
        "posterior draws with centered features, under any drift",
        example=_SHORT,
        budgeted=True,
        reference="Kim and Paik (2019)",
        plannable=False,
        live=False,
    ),
)

BUILT_IN = (*HOUSE, *LINEAR, *UNSTRUCTURED, *BUDGET, *INDUSTRY, *CENTERED)
