"""Colours, headings and writing of pictures."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from bestarm.errors import MissingDependencyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

NAMED = "black"
# Told apart by colour-blind readers (Okabe and Ito) and, by dashes and markers, without any colour.
RIVALS = (
    ("#0072B2", (0, (6, 1.5)), "o"),
    ("#D55E00", (0, (1.5, 1.5)), "s"),
    ("#009E73", (0, (6, 1.5, 1.5, 1.5)), "^"),
    ("#CC79A7", (0, (3, 1.5)), "D"),
)
QUIET = "0.62"
_LONGEST_LABEL = 24


def new_figure(width: float, height: float) -> Figure:
    """An empty picture of this size in inches.

    Raises:
        MissingDependencyError: Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        raise MissingDependencyError.of("Drawing", "matplotlib", extra="cli") from None
    return Figure(figsize=(width, height), layout="constrained")


def head(figure: Figure, title: str, words: str, *, plain: Iterable[Text] = ()) -> None:
    """A title, a line on how to read the picture, and texts without mathematical markup."""
    heading = figure.suptitle(
        f"{title}\n", x=0.015, ha="left", fontsize=12.5, fontweight="bold", linespacing=1.5
    )
    for text in (heading, *plain):
        text.set_parse_math(False)
    below = 1 - 0.29 / figure.get_figheight()
    figure.text(0.015, below, words, ha="left", va="top", fontsize=9.5, color="0.25")


def pulls_axis(axes: Axes, *, separator: str = ",") -> None:
    """A logarithmic axis of pulls, between limits that are set already."""
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    span = high / low
    between = (1.0, 2.0, 3.0, 5.0) if span < 20 else (1.0, 3.0) if span < 300 else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(subs=between))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}".replace(",", separator))
    axes.xaxis.set_minor_formatter(NullFormatter())


def short(label: str) -> str:
    """A label that fits."""
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"


def save(figure: Figure, path: str | Path) -> Path:
    """Write a picture, in the format of its ending, and return the path.

    The folder is made if necessary. Raises OSError if the file cannot be written.
    """
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=130)
    return file
