"""Which of several prompts or models is best on these items: judged until it is clear."""

from bestarm.evaluation.effort import Effort, EvaluationPlan, plan_evaluation
from bestarm.evaluation.gate import Verdict
from bestarm.evaluation.result import Difference, Evaluation, Lead, Score
from bestarm.evaluation.run import evaluate, evaluate_async
from bestarm.evaluation.tables import ScoreTable, compare_results, read_results

__all__ = [
    "Difference",
    "Effort",
    "Evaluation",
    "EvaluationPlan",
    "Lead",
    "Score",
    "ScoreTable",
    "Verdict",
    "compare_results",
    "evaluate",
    "evaluate_async",
    "plan_evaluation",
    "read_results",
]
