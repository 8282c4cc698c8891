"""Numbers in words: in percent where all outcomes are 0 or 1, else in the outcome's own unit."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal

__all__ = [
    "NUMBER", "Unit", "all_of", "count_options", "decimal", "plural", "read_amount", "rough",
    "scaled",
]  # fmt: skip

#: A number without a sign, as it is printed and as people type it, and its exponent.
NUMBER = (
    r"((?:[1-9][0-9]{0,2}(?:,[0-9]{3}){1,12}|[0-9]{1,40})(?:\.[0-9]{0,40})?|\.[0-9]{1,40})"
    r"(?:e([+-]?[0-9]{1,3}))?"
)


def scaled(digits: str, exponent: str | None, unit: str) -> Decimal:
    """The number that `NUMBER` found, in thousands (k), percent (%) or points (pp): exact.

    >>> scaled("20,000", None, ""), scaled("20", None, "k"), float(scaled("5", None, "%"))
    (Decimal('20000'), Decimal('2.0E+4'), 0.05)
    """
    shift = {"": 0, "k": 3}.get(unit.lower(), -2)
    return Decimal(f"{digits.replace(',', '')}e{int(exponent or 0) + shift}")


_AMOUNT = re.compile(rf"\s*([+−-]?){NUMBER}\s*([k%]?)\s*", re.IGNORECASE)


def read_amount(text: str) -> Decimal | None:
    """A number as it is printed and as people type it, or None.

    >>> [float(read_amount(text) or 0) for text in ("20,000", "20k", "1e4", "5 %", "−2")]
    [20000.0, 20000.0, 10000.0, 0.05, -2.0]
    """
    found = _AMOUNT.fullmatch(text)
    if found is None:
        return None
    sign, *parts = found.groups()
    return scaled(*parts).copy_sign(1 if sign in {"", "+"} else -1)


def decimal(value: float, places: int) -> str:
    """A number with so many decimals; one that rounds to zero is 0, without a sign.

    >>> decimal(-0.004, 2), decimal(-1.26, 1), decimal(12345.6, 0)
    ('0', '−1.3', '12,346')
    """
    text = f"{value:,.{places}f}".replace("-", "−")
    return text if text.strip("−0.,") else "0"


def rough(count: float, noun: str = "") -> str:
    """A count that is only estimated, to two digits, and its noun.

    >>> rough(65246), rough(99.7), rough(1.2, "outcome")
    ('65,000', '100', '1 outcome')
    """
    digits = len(str(round(count)))
    text = f"{round(count, min(0, 2 - digits)):,.0f}"
    if not noun:
        return text
    return f"{text} {noun}" if text == "1" else f"{text} {noun}s"


def plural(count: int, noun: str) -> str:
    """A number, with thousands apart, and a noun.

    >>> plural(1, "run"), plural(2000, "run")
    ('1 run', '2,000 runs')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def all_of(count: int, noun: str) -> str:
    """All of what is counted.

    >>> all_of(797, "item"), all_of(1, "item")
    ('all 797 items', 'the only item')
    """
    return f"the only {noun}" if count == 1 else f"all {plural(count, noun)}"


def count_options(options: int, retired: int) -> str:
    """How many options there were, and how many of them are retired.

    >>> count_options(4, 0), count_options(4, 1)
    ('4 options', '4 options (one retired)')
    """
    gone = f" ({'one' if retired == 1 else retired} retired)" if retired else ""
    return f"{plural(options, 'option')}{gone}"


@dataclass(frozen=True)
class Unit:
    """How rewards are written.

    Attributes:
        percent: whether they are rates: every outcome so far is 0 or 1.
    """

    percent: bool = False

    def value(self, value: float | None, *among: float | None) -> str:
        """A reward or a rate, with the decimals that the largest of the values asks for.

        >>> Unit(percent=True).value(0.1123), Unit().value(0.1123)
        ('11.2 %', '0.112')
        >>> Unit(percent=True).value(None)
        '–'
        """
        text = self._write(value, *among)
        return f"{text} %" if self.percent and text != "–" else text

    def difference(self, value: float | None, *among: float | None, signed: bool = False) -> str:
        """A difference of rewards, or of rates in points.

        >>> Unit(percent=True).difference(0.012, signed=True), Unit().difference(-0.012)
        ('+1.2 points', '−0.0120')
        >>> Unit(percent=True).difference(None)
        '–'
        """
        text = self._write(value, *among)
        plus = "+" if signed and text[0] not in "−–" and text != "0" else ""
        return f"{plus}{text} points" if self.percent and text != "–" else plus + text

    def declared(self, value: float) -> str:
        """A difference that somebody declared, as it was written.

        >>> Unit(percent=True).declared(0.004), Unit().declared(0.05)
        ('0.4 points', '0.05')
        """
        return f"{100 * value:.10g} points" if self.percent else f"{value:.10g}"

    def interval(self, low: float | None, high: float | None, *among: float | None) -> str:
        """An interval, without its unit.

        >>> Unit(percent=True).interval(0.004, 0.02)
        '0.4 to 2.0'
        """
        return f"{self._write(low, high, *among)} to {self._write(high, low, *among)}"

    def lead(self, estimate: float, low: float, high: float, relative: float | None = None) -> str:
        """A lead with its interval, and relative to something, if that is known and not 0.

        >>> Unit(percent=True).lead(0.012, 0.004, 0.02, 0.09)
        '+1.2 points (0.4 to 2.0), +9 % relative'
        """
        text = self.difference(estimate, low, high, signed=True)
        text += f" ({self.interval(low, high, estimate)})"
        if relative is None:
            return text
        share = decimal(100 * relative, 0 if abs(relative) >= 0.05 else 1)
        sign = "+" if relative > 0 else ""
        return text if share == "0" else f"{text}, {sign}{share} % relative"

    def _write(self, value: float | None, *among: float | None) -> str:
        if value is None or not math.isfinite(value):
            return "–"
        scale = 100 if self.percent else 1
        known = [abs(each) for each in (value, *among) if each is not None and math.isfinite(each)]
        largest = scale * max(known)
        size = math.floor(math.log10(largest)) if largest else 0
        # Percent as people write them, 11.2 and 0.32; other units with three digits.
        places = min(max(1 - size, 1), 4) if self.percent else min(max(2 - size, 0), 12)
        return decimal(scale * value, places)
