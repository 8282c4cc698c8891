"""Which of several prompts or models is best on these items: judged until it is clear."""

from bestarm.evaluation.gate import Verdict
from bestarm.evaluation.result import Difference, Evaluation, Lead, Score
from bestarm.evaluation.run import evaluate, evaluate_async

__all__ = ["Difference", "Evaluation", "Lead", "Score", "Verdict", "evaluate", "evaluate_async"]
