"""Rates and leads as people write them: "2 %", "+10 %", "0.2 pp"."""

from __future__ import annotations

import re

from bestarm.checks import finite, positive
from bestarm.errors import InvalidInputError
from bestarm.units import NUMBER, read_amount, scaled

_LEAD = re.compile(rf"\s*(\+?)\s*{NUMBER}\s*(%|pp|k|)\s*", re.IGNORECASE)


def read_rate(value: object, field: str) -> float:
    """A mean outcome: a number, or a text like "2 %".

    >>> read_rate("2 %", "base"), read_rate(0.02, "base")
    (0.02, 0.02)
    """
    if not isinstance(value, str):
        return finite(value, field)
    lead = value.lstrip().startswith("+")
    rate = None if lead else read_amount(value)
    if rate is None:
        raise InvalidInputError(
            f"`{field}` must be a number like 0.02 or a percentage like '2 %'; got {value!r}.",
            field=field,
            value=value,
            remedy=f"Write '{value.replace(',', '.').strip()}'."
            if read_amount(value.replace(",", ".")) is not None
            else "Write a point before decimals, and a percent sign for percent.",
        )
    return float(rate)


def read_lead(value: object, base: float | None) -> float:
    """By how much the best option leads: a number, or a text like "+10 %" or "0.2 pp".

    A percentage is of the base rate, and has its plus sign; percentage points are `pp`.

    >>> read_lead("+10 %", 0.02), read_lead("0.2 pp", 0.02), read_lead(0.002, None)
    (0.002, 0.002, 0.002)
    """
    if not isinstance(value, str):
        return positive(value, "gap")
    found = _LEAD.fullmatch(value)
    if found is None:
        raise InvalidInputError(
            f"`gap` must be a lead like 0.002, '+10 %' (of the base rate) or '0.2 pp'; got "
            f"{value!r}.",
            field="gap",
            value=value,
            remedy="A lead is positive; write a point before decimals.",
        )
    sign, digits, exponent, unit = found.groups()
    amount = positive(float(scaled(digits, exponent, unit)), "gap")
    if unit != "%":
        return amount
    if not sign:
        raise InvalidInputError(
            f"`gap` could mean a share of the base rate or percentage points; got {value!r}.",
            field="gap",
            value=value,
            remedy=f"Write '+{digits} %' for a share of the base rate, or '{digits} pp'.",
        )
    if base is None:
        raise InvalidInputError(
            f"A lift of {value.strip()} needs a base rate: it is a share of it.",
            field="base",
            remedy="Give `base`, such as '2 %', or a lead in percentage points, such as '0.2 pp'.",
        )
    if base <= 0:
        raise InvalidInputError(
            f"A lift of {value.strip()} is a share of the base rate, which must then be positive; "
            f"got {base:g}.",
            field="base",
            value=base,
            remedy="Give the lead in units of the outcome.",
        )
    return amount * base


def in_percent(share: float) -> str:
    """A share in percent, to three digits.

    >>> in_percent(0.0228), in_percent(12.345)
    ('2.28 %', '1,230 %')
    """
    return f"{float(f'{100 * share:.3g}'):,.10g} %"


def describe_lift(lift: float, base: float | None, *, rates: bool) -> str:
    """A lift in words: of the base rate where there is one, else in units of the outcome.

    >>> describe_lift(0.0028, 0.02, rates=True), describe_lift(0.5, None, rates=False)
    ('+14 % (2 % → 2.28 %)', '0.5')
    """
    if base is None:
        return f"{lift:.3g}"
    ends = [in_percent(each) if rates else f"{each:.3g}" for each in (base, base + lift)]
    change = f"({ends[0]} → {ends[1]})"
    return f"+{in_percent(lift / base)} {change}" if base > 0 else f"+{lift:.3g} {change}"
