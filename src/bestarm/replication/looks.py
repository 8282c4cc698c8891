"""The look of the pictures: one style, the colours of the page, the same bytes every time."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bestarm.errors import MissingDependencyError
from bestarm.figures.ink import pulls_axis
from bestarm.replication.tables import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
}
_LOOKS = {
    "sp-bai": (COLOURS["blue"], "o"),
    "sbe": (COLOURS["green"], "s"),
    "g-opt": (COLOURS["purple"], "^"),
    "rage": (COLOURS["vermilion"], "v"),
    "lucb": (COLOURS["orange"], "v"),
    "ae": (COLOURS["purple"], "^"),
    "sp-bai-text": (QUIET, "D"),
    "sp-bai-centered": (INK, "D"),
    "deo": (COLOURS["blue"], "o"),
    "uniform": (COLOURS["green"], "s"),
    "centered": (INK, "D"),
}
_STYLE: dict[str, Any] = {
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.linewidth": 0.7,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
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


@contextmanager
def style() -> Iterator[None]:
    """Draw and save with Matplotlib's defaults, whatever the user's, and our style on top."""
    try:
        from matplotlib import style as styles  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        raise MissingDependencyError.of("Drawing", "matplotlib", extra="cli") from None
    with styles.context(["default", _STYLE]):
        yield


def grid(row: Row) -> tuple[str, float | None]:
    """The family of a row and its place in it: rage-2 is RAGE's at 2; a row alone has none."""
    match = re.fullmatch(r"(.+)-(\d+(?:\.\d+)?)", row.key)
    return (row.key, None) if match is None else (match[1], float(match[2]))


def look(row: Row) -> tuple[str, str]:
    """The colour and marker of a method, the same in all pictures."""
    return _LOOKS.get(grid(row)[0], (INK, "o"))


def label(row: Row) -> str:
    """The name of a row; ours have an asterisk, which `add_legend` explains."""
    return row.label + (" *" if row.ours else "")


def entry(label: str, **appearance: Any) -> Any:
    """An entry of a legend."""
    from matplotlib.lines import Line2D  # noqa: PLC0415

    return Line2D([], [], label=label, **({"color": INK} | appearance))


def add_legend(figure: Figure, handles: list[Any], rows: Iterable[Row], **options: Any) -> None:
    """A legend below the picture of these rows."""
    if any(row.ours for row in rows):
        handles = [*handles, entry("* not in the paper", ls="none")]
    figure.legend(handles=handles, loc="outside lower left", **options)


def grouped_pulls(axes: Axes) -> None:
    """A logarithmic axis of pulls, with thin spaces between thousands."""
    pulls_axis(axes, separator="\N{THIN SPACE}")
    axes.set_xlabel("pulls (logarithmic)")


def write_figure(figure: Figure, stem: Path) -> str:
    """Write a figure as PNG and PDF, without dates or versions in them; return it for a page.

    The page's is an SVG element in the page's colours, whose ids begin with the name of the files.
    """
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.execute(figure)
    figure.set_layout_engine(None)  # laid out once, the same for all formats; drawn once for each
    figure.savefig(stem.with_suffix(".png"), metadata={"Software": None})
    nothing = dict.fromkeys(("Creator", "Producer", "CreationDate"))
    figure.savefig(stem.with_suffix(".pdf"), metadata=nothing)
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style .*?</style>|<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', r"<svg \1>", text, count=1)
    text = re.sub(r'\bid="', f'id="{stem.name}-', text)
    text = re.sub(r'xlink:href="#|\bhref="#', f'href="#{stem.name}-', text)
    text = text.replace("url(#", f"url(#{stem.name}-")
    for variable, colour in COLOURS.items():
        text = text.replace(colour, f"var(--{variable})")
    return re.sub(r"\s*\n\s*", "\n", text).strip()
