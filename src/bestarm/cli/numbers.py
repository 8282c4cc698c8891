"""Numbers as people write them, which is not all that Python takes for one."""

from __future__ import annotations

import typer

__all__ = ["decimal", "read_number", "whole"]


def read_number(text: str) -> float | None:
    """A number, or None. An underscore is no part of one: 0_1 is a slip, and not 1.

    >>> read_number("0.1"), read_number("0_1")
    (0.1, None)
    """
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def decimal(value: str) -> float:
    """A number of the command line."""
    text = str(value)
    number = read_number(text)
    if number is None:
        raise typer.BadParameter(f"{text!r} is not a number.")
    return number


def whole(value: str) -> int:
    """A whole number of the command line."""
    text = str(value)
    try:
        return int("none" if "_" in text else text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number.") from None
