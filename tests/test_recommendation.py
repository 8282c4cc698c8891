"""What a recommendation says of itself."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bestarm.recommendation import Effect, Recommendation


def recommendation(**changes: Any) -> Recommendation:
    values: dict[str, Any] = {
        "target": 0,
        "label": "tea",
        "final": True,
        "reason": "identified",
        "pulls": 12_345,
        "error_bound": 0.05,
        "active": (0,),
    }
    return Recommendation(**(values | changes))


UNDECIDED = {"final": False, "reason": "running", "active": (0, 1), "error_bound": None}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "tea: identified as the best after 12,345 assignments (error ≤ 0.05)"),
        (
            {"reason": "measuring"},
            "tea: identified as the best after 12,345 assignments (error ≤ 0.05)",
        ),
        (
            {"reason": "equivalent"},
            "tea: equivalent to the best, within the tolerance, after 12,345 assignments (error ≤ "
            "0.05)",
        ),
        (
            UNDECIDED,
            "tea: leading, not identified (still running; 2 options remain) after 12,345 "
            "assignments (no proven error bound)",
        ),
        (
            UNDECIDED | {"claims": 0.05, "pulls": 1},
            "tea: leading, not identified (still running; 2 options remain) after 1 assignment "
            "(once identified: error ≤ 0.05)",
        ),
        (
            UNDECIDED | {"claims": 0.05, "pulls": 0},
            "no leader yet: no outcome counts so far (still running; 2 options remain; once "
            "identified: error ≤ 0.05)",
        ),
        (
            UNDECIDED | {"reason": "max_pulls"},
            "tea: leading, not identified (stopped at its limit of assignments; 2 options remain) "
            "after 12,345 assignments (no proven error bound)",
        ),
        (
            UNDECIDED | {"reason": "stopped", "claims": 0.05},
            "tea: leading, not identified (stopped by hand; 2 options remain) after 12,345 "
            "assignments (an answer before the end has no proven error bound)",
        ),
        (
            UNDECIDED | {"reason": "out of luck"},
            "tea: leading, not identified (stopped: out of luck; 2 options remain) after 12,345 "
            "assignments (no proven error bound)",
        ),
        (
            {"claims": 0.05, "error_bound": None, "contradicted": True},
            "tea: identified as the best after 12,345 assignments (rewards contradict the "
            "assumptions: no error bound holds)",
        ),
    ],
)
def test_a_recommendation_says_how_far_it_can_be_relied_on(
    changes: dict[str, Any], text: str
) -> None:
    assert str(recommendation(**changes)) == text


def test_a_notebook_shows_a_table() -> None:
    made = recommendation(label="<b>", effect=Effect(1, "old", 0.1, 0.05, 0.15))
    html = made._repr_html_()
    assert html.startswith("<p>&lt;b&gt;: identified as the best")
    cells = re.findall(r"<td[^>]*>(.*?)</td>", html)
    assert cells[0] == "&lt;b&gt;"
    assert cells[-1] == "0.1 (0.05 to 0.15)"
    assert ">lead over old<" in html
