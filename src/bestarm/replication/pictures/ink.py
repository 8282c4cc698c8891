"""The look of the pictures: one style, the colours of the page, the same bytes every time."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bestarm.errors import MissingDependencyError
from bestarm.replication.tables import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = [
    "COLOURS",
    "INK",
    "PAPER",
    "QUIET",
    "RULE",
    "MarkStyle",
    "grid",
    "grouped_pulls",
    "look",
    "new_figure",
    "not_in_the_paper",
    "save",
    "settle",
    "style",
    "svg",
]

INK, QUIET, RULE, PAPER = "#1c2026", "#626a75", "#d5d9de", "#ffffff"
# Okabe and Ito's colours, which colour-blind readers can distinguish. The dark page has others.
COLOURS = {
    "ink": INK,
    "quiet": QUIET,
    "rule": RULE,
    "paper": PAPER,
    "blue": "#0072b2",
    "green": "#009e73",
    "vermilion": "#d55e00",
    "purple": "#cc79a7",
    "orange": "#e69f00",
    "green-text": "#00775a",
    "vermilion-text": "#b04a00",
    "purple-text": "#a1457a",
    "orange-text": "#8f6200",
}
_THIN = "\N{THIN SPACE}"


@dataclass(frozen=True)
class MarkStyle:
    """A method's colour and marker."""

    colour: str
    marker: str

    @property
    def text(self) -> str:
        """The same colour, dark enough to read."""
        name = next(name for name, colour in COLOURS.items() if colour == self.colour)
        return COLOURS.get(f"{name}-text", self.colour)


_LOOKS = {
    "sp-bai": MarkStyle(COLOURS["blue"], "o"),
    "sbe": MarkStyle(COLOURS["green"], "s"),
    "g-opt": MarkStyle(COLOURS["purple"], "^"),
    "rage": MarkStyle(COLOURS["vermilion"], "v"),
    "lucb": MarkStyle(COLOURS["orange"], "v"),
    "ae": MarkStyle(COLOURS["purple"], "^"),
    "sp-bai-text": MarkStyle(QUIET, "D"),
    "sp-bai-centered": MarkStyle(INK, "D"),
    "deo": MarkStyle(COLOURS["blue"], "o"),
    "uniform": MarkStyle(COLOURS["green"], "s"),
    "centered": MarkStyle(INK, "D"),
}


def grid(row: Row) -> tuple[str, float | None]:
    """The family of a row and its place in it: rage-2 is RAGE's at 2; a row alone has none."""
    match = re.fullmatch(r"(.+)-(\d+(?:\.\d+)?)", row.key)
    return (row.key, None) if match is None else (match[1], float(match[2]))


def look(row: Row) -> MarkStyle:
    """The colour and marker of a method, the same in all pictures."""
    return _LOOKS.get(grid(row)[0], MarkStyle(INK, "o"))


@contextmanager
def style() -> Iterator[None]:
    """Draw and save with Matplotlib's defaults, whatever the user's, and our style on top."""
    try:
        from matplotlib import style as styles  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        raise MissingDependencyError.of("Drawing", "matplotlib", extra="cli") from None
    style: dict[str, object] = {
        "axes.edgecolor": QUIET,
        "axes.labelcolor": INK,
        "axes.labelsize": 9,
        "axes.linewidth": 0.7,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 10,
        "figure.dpi": 150,
        "font.size": 9,
        "legend.fontsize": 8,
        "legend.frameon": False,
        "pdf.fonttype": 42,  # text stays text
        "svg.hashsalt": "bestarm",
        "text.color": INK,
        "text.parse_math": False,
        "xtick.color": QUIET,
        "xtick.labelcolor": INK,
        "xtick.labelsize": 8,
        "ytick.color": QUIET,
        "ytick.labelcolor": INK,
        "ytick.labelsize": 8,
    }
    with styles.context(["default", style]):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure that can be measured."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def settle(figure: Figure) -> None:
    """Lay the figure out, once and for all."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def grouped_pulls(axes: Axes) -> None:
    """A logarithmic axis of pulls, with thin spaces between thousands."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    between = (1.0, 3.0) if high / low < 300 else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(subs=between))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.0f}".replace(",", _THIN))
    )
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("pulls (logarithmic)")


def not_in_the_paper() -> Line2D:
    """The entry of a legend that explains the asterisk of our own rows."""
    from matplotlib.lines import Line2D  # noqa: PLC0415

    return Line2D([], [], ls="none", label="* not in the paper")


def save(figure: Figure, stem: Path) -> None:
    """Write a figure as PNG and as PDF, without dates or versions in them."""
    figure.savefig(stem.with_suffix(".png"), metadata={"Software": None})
    nothing = {"Creator": None, "Producer": None, "CreationDate": None}
    figure.savefig(stem.with_suffix(".pdf"), metadata=nothing)


def svg(figure: Figure, name: str) -> str:
    """A figure as an element of a page, in the page's colours; its ids begin with `name`."""
    buffer = io.StringIO()
    nothing = {"Creator": None, "Date": None, "Format": None, "Type": None}
    figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style .*?</style>|<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', r"<svg \1>", text, count=1)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'xlink:href="#|\bhref="#', f'href="#{name}-', text)
    text = text.replace("url(#", f"url(#{name}-")
    for variable, colour in COLOURS.items():
        text = text.replace(colour, f"var(--{variable})")
    return re.sub(r"\s*\n\s*", "\n", text).strip()
