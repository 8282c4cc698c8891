"""The result of an evaluation as a file: a page, Markdown for a pull request, JUnit XML."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from bestarm.errors import InvalidInputError
from bestarm.evaluation.result import Evaluation
from bestarm.tables import TextTable

_SHOWN = 100  # items on the page
_LONGEST = 600  # characters of an item or an answer there
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{border-bottom:1px solid #ccc;"
    "padding:.3rem .6rem;vertical-align:top;overflow-wrap:anywhere}"
    "h1{font-size:1.3rem}h2{font-size:1.1rem;margin-top:2rem}"
)


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
    return TextTable.of(headings, rows).to_html()


def _text(value: Any) -> str:
    if value is None:
        return "–"
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
        state = "not worse" if found.recommendation.final else "undecided"
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
