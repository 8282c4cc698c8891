"""The policies of bestarm: the only place that lists them."""

from __future__ import annotations

from bestarm.policies.info import Options, PolicyInfo
from bestarm.policies.published import PUBLISHED

_SHARP: Options = {"design": "centered", "stability": "actual"}
_ROUNDS: Options = {"sigma": 0.5}  # fewer rounds than with the declared noise
_BUDGET: Options = {"budget": 5000}

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
        "phases with an anchored design, tuned",
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
        "bestarm.policies.means.lucb:LUCB",
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
        "bestarm.policies.means.action_elimination:ActionElimination",
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
        "bestarm.policies.means.bernstein:BernsteinElimination",
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
        "bestarm.policies.means.paired:PairedTests",
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

BUILT_IN = (*HOUSE, *PUBLISHED)
