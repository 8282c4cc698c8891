"""Prompts judged by a model: its replies are kept on disk, and some cannot be judged.

    bestarm evaluate judge.py --options prompts.jsonl --items questions.csv --on-failure 0
    bestarm evaluate judge.py --options prompts.jsonl --items questions.csv --compare --on-failure 0

It runs as it is: `stand_in` takes the place of a model. To use a real one, put your client into
`call_model`, and your task into the three prompts.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random

CACHE = Path(os.environ.get("MODEL_CACHE", "model-cache"))

ANSWER = "{prompt}\n\nQuestion: {question}"
GRADE = (
    "Grade this answer from 0 (wrong) to 10 (right). End with a line `Grade: N`.\n\n"
    "Question: {question}\nReference: {answer}\nAnswer: {reply}"
)
CHOOSE = (
    "Which answer is better? End with a line `Better: A`, `Better: B` or `Better: neither`.\n\n"
    "Question: {question}\nReference: {answer}\nAnswer A: {first}\nAnswer B: {second}"
)


def call_model(prompt: str) -> str:
    """Ask a model: the one place that costs money. Its exceptions are retried by `evaluate`.

    For example:

        reply = client.responses.create(model="small", input=prompt, timeout=60)
        return reply.output_text
    """
    return stand_in(prompt)


def ask(prompt: str, read: Callable[[str], object] = str) -> str:
    """The reply to a prompt, from the disk if it was asked before.

    A reply that `read` finds nothing in is not kept, so a later run asks again. A file appears
    complete or not at all: threads and kills do no harm.
    """
    file = CACHE / f"{hashlib.sha256(prompt.encode()).hexdigest()}.txt"
    if file.exists():
        return file.read_text(encoding="utf-8")
    reply = call_model(prompt)
    if read(reply) is not None:
        CACHE.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        partial.write_text(reply, encoding="utf-8")
        partial.replace(file)
    return reply


def answer(option: dict[str, str], item: dict[str, str]) -> str:
    """The answer of the model under an option's prompt."""
    return ask(ANSWER.format(prompt=option["prompt"], question=item["question"]))


def judge(option: dict[str, str], item: dict[str, str]) -> tuple[float | None, str]:
    """The grade of an option's answer from 0 to 1, and the answer, for the report.

    A grader that gives no grade makes a score of None: the pair cannot be judged. It counts with
    the score of `--on-failure`; without one the evaluation ends there.
    """
    reply = answer(option, item)
    grade = read_grade(ask(GRADE.format(**item, reply=reply), read_grade))
    return grade, reply


def prefer(first: dict[str, str], second: dict[str, str], item: dict[str, str]) -> str | None:
    """The name of the option with the better answer, or None if neither is.

    Which option is `first` is drawn by `evaluate`, so its answer must be shown first: what the
    model gives to the first place then cancels. A reply without a choice is returned as it is, and
    since that is not the name of an option, the comparison cannot be judged.
    """
    shown = CHOOSE.format(**item, first=answer(first, item), second=answer(second, item))
    reply = ask(shown, read_choice)
    names = {"A": first["name"], "B": second["name"], "neither": None, None: reply}
    return names[read_choice(reply)]


def read_grade(reply: str) -> float | None:
    """The grade at the end of a reply, as a share of 10; None without one."""
    found = re.search(r"^Grade: (\d+)\s*$", reply, re.M)
    return int(found[1]) / 10 if found and int(found[1]) <= 10 else None


def read_choice(reply: str) -> str | None:
    """A, B or neither; None if the reply does not say."""
    found = re.search(r"^Better: (A|B|neither)\s*$", reply, re.M)
    return found[1] if found else None


# --- a stand-in for a model, which needs no network -----------------------------------------------

_CARE = {"step by step": 0.95, "careful": 0.7, "one word": 0.4}  # how often it is right


def stand_in(prompt: str) -> str:
    """Answer, grade or choose as a model might: sometimes wrong, biased, or of no use."""
    chance = Random(prompt).random()
    right = re.findall(r"Answer(?: A| B)?: (.*)", prompt)
    reference = re.search(r"Reference: (.*)", prompt)
    if reference is None:
        one, other = map(int, re.findall(r"\d+", prompt.rpartition("Question:")[2]))
        care = next((value for words, value in _CARE.items() if words in prompt), 0.6)
        return str(one * other if chance < care else one * other + 10)
    correct = [reference[1] == each for each in right]
    if chance < 0.05:
        return "I cannot help with that."
    if len(correct) == 1:
        return f"Let me see.\nGrade: {9 if correct[0] else 2}"
    if correct[0] == correct[1]:  # of two equal answers it likes the first one
        return "Both look alike.\nBetter: " + ("A" if chance < 0.8 else "B")
    return "Better: A" if correct[0] else "Better: B"
