"""Which of several prompts or models is best on these items: judged until it is clear."""

from bestarm.evaluation.log import Evaluation, Score
from bestarm.evaluation.run import evaluate, evaluate_async

__all__ = ["Evaluation", "Score", "evaluate", "evaluate_async"]
