"""Which of several prompts or models is best on these items: judged until it is clear."""

from bestarm.evaluation.evaluator import evaluate, evaluate_async
from bestarm.evaluation.results import Evaluation, Score

__all__ = ["Evaluation", "Score", "evaluate", "evaluate_async"]
