"""What came of an evaluation: printed, in a notebook, as a frame, a picture, or a file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree

from bestarm.errors import InvalidInputError, MissingDependencyError
from bestarm.evaluation.gate import Verdict
from bestarm.evaluation.preferences import Outcome
from bestarm.figures import Distance, as_axes, draw_distances, shorten
from bestarm.files import replacing
from bestarm.recommendation import Recommendation
from bestarm.tables import Column, Entry, Line, TextTable
from bestarm.units import Unit, decimal, plural

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

JUDGE_CHANGED = "The judge's file has changed since the first scores were recorded"
FRESH = "To judge everything anew, use `fresh=True` (`--fresh`)."

_SHOWN = 100  # items on the page
_LONGEST = 600  # characters of an item or an answer there
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{border-bottom:1px solid #ccc;"
    "padding:.3rem .6rem;vertical-align:top;overflow-wrap:break-word;max-width:24rem}"
    "h1{font-size:1.3rem}h2{font-size:1.1rem;margin-top:2rem}"
)


class Lead(NamedTuple):
    """How far an option is ahead of the control, on the items judged for both.

    Attributes:
        estimate: the mean difference; NaN if no item was judged for both.
        low: a lower bound on the lead over all items.
        high: an upper bound. The bounds of the named option hold at every moment, together with the
            decision, but for the probability δ; those of the others but for δ/20 more. Of a gate
            all lower bounds hold but for δ, and so do all upper ones.
    """

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Score:
    """What an option was given.

    Attributes:
        label: the option's name.
        judged: on how many items it was judged.
        mean: its mean score on these; None if there are none. Options that dropped out were judged
            on fewer items than others.
        possible: whether it may still be the best, or is as good as the best.
        lead: over the control; None of the control itself, and without a control.
    """

    label: str
    judged: int
    mean: float | None
    possible: bool
    lead: Lead | None = None


class Difference(NamedTuple):
    """An item on which two options were given different scores.

    Attributes:
        item: its id, or its number from 1.
        text: the item.
        scores: of the two options.
        answers: what the judge returned besides the scores, in this run; None where it did not.
    """

    item: str | int
    text: Any
    scores: tuple[float, float]
    answers: tuple[Any, Any]


@dataclass(frozen=True)
class Evaluation:
    """What came of an evaluation. Printed, it says so in words.

    Attributes:
        name: of the experiment in the store.
        store: the URL of the store, without a password.
        state: of the experiment: `"finished"`, `"running"` if it can go on, or `"paused"` or
            `"stopped"` by hand.
        recommendation: the option to choose, and what is proven about it.
        scores: what each option was given, in the order of the options.
        judgements: how many pairs of an option and an item were judged, by earlier runs too.
        judged_now: how many of them this run judged: 0 if the evaluation had finished earlier.
        unjudged: how many of them could not be judged, and have the score `on_failure`.
        judge_changed: whether some scores were recorded when the judge's file was another.
        all_judgements: how many pairs there are.
        failures: calls of the judge in this run that failed, without the last one of each pair
            that has the score `on_failure`.
        lost: calls, also of earlier runs, in flight when their process was killed or left them.
        cost: the price of all judgements, of the calls of this run that failed, and of lost calls.
        saved_cost: what judging the other pairs would cost; 0 as long as nothing is decided.
        max_cost: the cost that was not to be exceeded, or None.
        capped: whether it stopped because one more call would have exceeded that.
        seconds: how long this run took.
        priced: whether a price was given; if not, a call costs 1.
        control: the option that the others are compared with, or None.
        tolerance: how much worse than the best, or of a gate than the control, an option may be.
        verdicts: what a gate says of each option but the control; empty if it is not a gate.
        two_best: the option that is named and the next one; of a gate, the control and the option
            that is farthest behind it.
        differences: where these two differ, the largest difference first.
        notes: further sentences.
        outcome: where options are compared: whether there is a `"winner"`, one `"within
            tolerance"` of that, a `"cycle"` (none beats all others), or it is `"undecided"`.
        wins: how often each option was preferred to each other one, in the order of the options.
            Their scores are then shares of wins, with half a win where neither was preferred.
    """

    name: str
    store: str
    state: str
    recommendation: Recommendation
    scores: tuple[Score, ...]
    judgements: int
    judged_now: int
    unjudged: int
    judge_changed: bool
    all_judgements: int
    failures: int
    lost: int
    cost: float
    saved_cost: float
    max_cost: float | None
    capped: bool
    seconds: float
    priced: bool
    control: str | None = None
    tolerance: float = 0.0
    verdicts: tuple[Verdict, ...] = ()
    differences: tuple[Difference, ...] = field(default=(), repr=False)
    two_best: tuple[str, str] | None = None
    notes: tuple[str, ...] = ()
    outcome: Outcome | None = None
    wins: tuple[tuple[int, ...], ...] = ()

    @property
    def decided(self) -> bool:
        """Whether there is an answer: an option is named, or none beats all others."""
        return self.recommendation.final or self.outcome == "cycle"

    @property
    def saved(self) -> float:
        """The share of all pairs that need not be judged; 0 as long as nothing is decided."""
        return self.saved_judgements / self.all_judgements

    @property
    def saved_judgements(self) -> int:
        """How many pairs need not be judged; 0 as long as nothing is decided."""
        return self.all_judgements - self.judgements if self.decided else 0

    @property
    def exit_code(self) -> int:
        """Of a gate: 0 if no option is worse than the control, 1 if one is, 3 if that is open.

        Otherwise 0.
        """
        states = {each.state for each in self.verdicts}
        return 1 if "worse" in states else 3 if "undecided" in states else 0

    @property
    def headline(self) -> str:
        """The conclusion in words, and whether it was reached earlier."""
        statement = self.recommendation.statement
        if self.state == "finished" and not self.judged_now:
            return f"Finished earlier: nothing was judged. {FRESH}\n{statement}"
        return statement

    def __str__(self) -> str:
        return "\n".join([self.headline, "", str(self.to_table()), "", *self.figures()])

    def _repr_html_(self) -> str:
        title = "\n".join([self.headline, *self.figures()])
        return replace(self.to_table(), title=title).to_html()

    def to_table(self) -> TextTable:
        """The options as a table of text."""
        headings = [f"wins over {score.label}" for score in self.scores if self.wins]
        headings += ["share of wins" if self.wins else "mean score", "judged"]
        headings += [f"lead over {self.control}"] if self.control is not None else []
        columns = Column("option", align="l"), *map(Column, headings), Column("", align="l")
        lines = (Line(name, tuple(map(Entry, texts))) for name, *texts in self._rows())
        return TextTable(columns, tuple(lines))

    def _rows(self) -> Iterator[list[str]]:
        for place, (score, status) in enumerate(zip(self.scores, self.statuses, strict=True)):
            mean = "–" if score.mean is None else f"{score.mean:.4g}"
            wins = self.wins[place] if self.wins else ()
            beaten = ("–" if other == place else f"{won:,}" for other, won in enumerate(wins))
            row = [score.label, *beaten, mean, f"{score.judged:,}"]
            if self.control is not None:
                row.append(describe_lead(score.lead))
            yield [*row, "" if status == "possible" else status]

    @property
    def statuses(self) -> list[str]:
        """How each option stands: best, leads, ties, possible or out; of a gate, its verdict."""
        best, tied = self.recommendation.target, self.recommendation.tied
        verdicts = {each.option: each.state for each in self.verdicts}
        found = []
        for place, score in enumerate(self.scores):
            status = "possible" if score.possible else "out"
            if self.state == "recorded":
                status = self._status_by_lead(score)
            elif place == best and self.judgements and self.outcome != "cycle":
                status = self._status_of_the_named
            if self.wins and status == "out":
                status = "beaten"
            if place in tied:
                status = "ties"
            if verdicts and self.state != "recorded":
                status = verdicts.get(score.label, "control")
            found.append(status)
        return found

    def _status_by_lead(self, score: Score) -> str:
        if score.lead is None:
            return "compared with"
        _, low, high = score.lead
        if low > 0 or high < 0:
            return "better" if low > 0 else "worse"
        equivalent = self.tolerance and -self.tolerance < low and high < self.tolerance
        return "equivalent" if equivalent else "not decided"

    @property
    def _status_of_the_named(self) -> str:
        if not self.recommendation.final:
            return "leads"
        return "good enough" if self.tolerance else "best"

    def figures(self) -> Iterator[str]:
        """What was judged, paid and saved, in sentences."""
        share = _percent(self.judgements / self.all_judgements)
        costs = f", which cost {self.cost:,.6g}" if self.priced else ""
        yield f"{self.judgements:,} of {plural(self.all_judgements, 'judgement')} ({share}){costs}."
        yield from self.notes
        if self.verdicts and not self.notes:
            earlier = self.judgements - self.judged_now
            before = f"; {earlier:,} earlier, in a run that did not finish" if earlier else ""
            yield f"Judged now: {self.judged_now:,}{before}."
        if self.judge_changed:
            yield f"{JUDGE_CHANGED}."
        if self.unjudged:
            pairs = plural(self.unjudged, "pair")
            yield f"{pairs} could not be judged, and counted with the score given for that case."
        if self.lost:
            calls = "1 call was" if self.lost == 1 else f"{self.lost:,} calls were"
            yield f"{calls} in flight when the evaluation was killed or left; they count as paid."
        if self.saved_judgements:
            worth = f", and {self.saved_cost:,.6g} of the cost" if self.priced else ""
            saved = _percent(self.saved)
            yield f"Saved: {plural(self.saved_judgements, 'judgement')} ({saved}){worth}."
        elif self.capped:
            yield (
                f"Stopped at the cost cap of {self.max_cost:g}. All judgements are kept: to "
                "continue, start the same evaluation with a larger cap."
            )
        elif self.state in ("paused", "stopped"):
            yield f"It was {self.state} by hand. All judgements are kept."

    def to_frame(self) -> pd.DataFrame:
        """One row per option: how it stands, its mean, and its lead over the control with bounds.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        try:
            import pandas as pd  # noqa: PLC0415 - optional
        except ImportError:
            raise MissingDependencyError.of("`to_frame`", "pandas", extra="frames") from None
        columns = ["status", "share_of_wins" if self.wins else "mean", "judged"]
        rows: list[tuple[Any, ...]] = [
            (status, math.nan if score.mean is None else score.mean, score.judged)
            for score, status in zip(self.scores, self.statuses, strict=True)
        ]
        if self.control is not None:
            columns += ["lead", "lead_low", "lead_high"]
            leads = [score.lead or Lead(0.0, 0.0, 0.0) for score in self.scores]
            rows = [(*row, *lead) for row, lead in zip(rows, leads, strict=True)]
        if self.wins:
            columns += [f"wins over {score.label}" for score in self.scores]
            rows = [(*row, *won) for row, won in zip(rows, self.wins, strict=True)]
        index = pd.Index([score.label for score in self.scores], name="option")
        return pd.DataFrame(rows, index=index, columns=columns)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the lead of each option over the control with its interval, or else mean scores.

        Args:
            ax: where to draw; a new picture if left out.

        Raises:
            MissingDependencyError: Matplotlib is not installed.
        """
        axes = as_axes(ax, height=1.2 + 0.36 * len(self.scores))
        shown = []
        for score, status in zip(self.scores, self.statuses, strict=True):
            lead = score.lead
            if lead is None:
                value = 0.0 if self.control is not None else score.mean
                lead = Lead(*([math.nan if value is None else value] * 3))
            label = f"{shorten(score.label)}, {status}"
            shown.append(Distance(label, *lead, score.possible))
        drawn = draw_distances(axes, shown, self.recommendation.statement)
        if self.control is None:
            words = "share of wins" if self.wins else "mean score on the items judged"
            drawn.set_xlabel(words)
            drawn.lines[-1].remove()  # the line at 0
        else:
            drawn.set_xlabel(f"lead over {shorten(self.control)}, with its interval")
        return drawn

    def write(self, path: str | Path) -> Path:
        """Write the result to a file, and return its path.

        `report.html` is a page that needs nothing else; `summary.md` is Markdown, for a pull
        request; `junit.xml` is what test reports of CI systems read, one test case per option.

        Raises:
            InvalidInputError: the ending is another one.
        """
        file = Path(path)
        text = render(self, file)
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as part:
            part.write_text(text, encoding="utf-8")
        return file


def describe_lead(lead: Lead | None) -> str:
    """A lead with its interval.

    >>> describe_lead(Lead(0.031, -0.004, 0.066)), describe_lead(None)
    ('+0.0310 (−0.0040 to 0.0660)', '–')
    """
    if lead is None or math.isnan(lead.estimate):
        return "–"
    return Unit().lead(*lead)


def _percent(share: float) -> str:
    return f"{decimal(100 * share, 0)} %"


# --- files ----------------------------------------------------------------------------------------


def check_ending(file: Path) -> Path:
    """Raise unless a result can be written to a file of this name."""
    if file.suffix.lower() not in _WRITERS:
        raise InvalidInputError(
            f"A result is written to a file that ends in .html, .md or .xml; got {file.name!r}.",
            field="out",
            value=str(file),
            remedy="Name it report.html, summary.md or junit.xml.",
        )
    return file


def render(found: Evaluation, file: Path) -> str:
    """The text of a file, by its ending."""
    return _WRITERS[check_ending(file).suffix.lower()](found)


def page(found: Evaluation) -> str:
    """A page of its own: what was found, the options, and where the two best differ."""
    head, *statement = found.headline.split("\n")
    parts = [
        f"<h1>{escape(found.name)}</h1>",
        *(f"<p><strong>{escape(line)}</strong></p>" for line in (head, *statement)),
        found.to_table().to_html(),
        *(f"<p>{escape(line)}</p>" for line in found.figures()),
    ]
    if found.recommendation.assumptions:
        lines = "".join(f"<li>{escape(each)}</li>" for each in found.recommendation.assumptions)
        parts.append(f"<h2>What this rests on</h2><ul>{lines}</ul>")
    if found.differences and found.two_best:
        one, two = found.two_best
        count = len(found.differences)
        shown = f"the {_SHOWN} largest of {count:,}" if count > _SHOWN else f"{count:,}"
        parts.append(f"<h2>Where {escape(one)} and {escape(two)} differ ({shown})</h2>")
        parts.append(_differences(found))
    title = escape(f"{found.name}: {head}")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{title}</title><style>{_STYLE}</style></head><body>"
        f"{''.join(parts)}</body></html>\n"
    )


def _differences(found: Evaluation) -> str:
    assert found.two_best is not None
    answered = any(each is not None for row in found.differences for each in row.answers)
    headings = ["item", "", *found.two_best]
    headings += [f"answer of {each}" for each in found.two_best] if answered else []
    rows = [
        [
            str(each.item),
            _text(each.text),
            *(f"{score:.4g}" for score in each.scores),
            *(map(_text, each.answers) if answered else ()),
        ]
        for each in found.differences[:_SHOWN]
    ]
    columns = [Column(each, align="l") for each in headings]
    columns[2:4] = map(Column, found.two_best)
    lines = (Line(name, tuple(map(Entry, texts))) for name, *texts in rows)
    return TextTable(tuple(columns), tuple(lines)).to_html()


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, Mapping):  # the id stands beside it
        return _text("; ".join(f"{key}: {each}" for key, each in value.items() if key != "id"))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def summary(found: Evaluation) -> str:
    """Markdown, for the summary of a pull request or of a job."""
    mark = {0: "✅ ", 1: "❌ ", 3: "❔ "}[found.exit_code] if found.verdicts else ""
    lines = [_plain_markdown(line) for line in found.headline.split("\n")]
    figures = " ".join(map(_plain_markdown, found.figures()))
    text = "  \n".join(lines)
    return f"{mark}{text}\n\n{found.to_table().to_markdown()}\n\n{figures}\n"


def _plain_markdown(text: str) -> str:
    for character in "\\*_<>#":
        text = text.replace(character, f"\\{character}")
    return text


def junit(found: Evaluation) -> str:
    """JUnit XML: a test case per option of a gate, or one for the evaluation."""
    cases: list[tuple[str, str, str]] = [
        (each.option, each.state, f"lead {each.lead:+.4g} ({each.low:+.4g} to {each.high:+.4g})")
        for each in found.verdicts
    ]
    if not cases:
        state = "not worse" if found.decided else "undecided"
        cases.append(("decided", state, found.recommendation.statement))
    counts = {
        "tests": len(cases),
        "failures": sum(state == "worse" for _, state, _ in cases),
        "errors": sum(state == "undecided" for _, state, _ in cases),
    }
    texts = {name: str(count) for name, count in counts.items()}
    root = ElementTree.Element("testsuites", texts)
    time = {"time": f"{found.seconds:.3f}"}
    suite = ElementTree.SubElement(root, "testsuite", {"name": found.name, **texts, **time})
    for option, state, words in cases:
        known = {"classname": found.name, "name": option}
        case = ElementTree.SubElement(suite, "testcase", known)
        if state == "worse":
            ElementTree.SubElement(case, "failure", {"message": f"worse: {words}"})
        if state == "undecided":
            ElementTree.SubElement(case, "error", {"message": f"undecided: {words}"})
        ElementTree.SubElement(case, "system-out").text = _xml_text(str(found))
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + _xml_text(
        ElementTree.tostring(root, encoding="unicode")
    )


def _xml_text(text: str) -> str:
    """A text without the characters that XML cannot hold."""
    return "".join(
        c if c in "\t\n\r" or (c >= " " and c not in "\ufffe\uffff") else "�" for c in text
    )


_WRITERS: Mapping[str, Callable[[Evaluation], str]] = {
    ".html": page,
    ".md": summary,
    ".xml": junit,
}
