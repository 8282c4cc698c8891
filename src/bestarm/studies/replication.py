"""A paper's tables run again, with a verdict on every published figure."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from bestarm import __version__
from bestarm.datasets import RatingsData
from bestarm.studies.choices import Choice, choices
from bestarm.studies.differences import PaperDifference, paper_differences
from bestarm.studies.pictures import table_pictures
from bestarm.studies.published import RUNS, Paper, PublishedTable, Rerun
from bestarm.studies.sp_bai import SP_BAI
from bestarm.studies.study import Report, Section, Study, StudyResults
from bestarm.studies.verdicts import Cell, Verdict, add_verdicts, row_cells
from bestarm.tables import THIN_SPACE, Column, Entry, Line, TextTable

VERDICTS: tuple[Verdict, ...] = ("consistent", "within noise", "differs")
_MINUS = "\N{MINUS SIGN}"
_NONE = "–"
_ENOUGH = 1000  # runs, to show heavy tails
_TAGS = {
    "consistent": "good",
    "within noise": "noise",
    "differs": "bad",
    "confirmed": "good",
    "reversed": "bad",
    "not found": "bad",
    "not resolved": "open",
}
_MARKS = {"consistent": r"$\bullet$", "within noise": r"$\circ$", "differs": r"$\times$"}
_LEGEND = (
    r"$\bullet$ consistent; $\circ$ the published difference is within noise; "
    r"$\times$ differs."
)
_CELLS = (
    "table,row,metric,value,low,high,spread,runs,q10,q25,q50,q75,q90,published,published_spread,"
    "p_value,verdict"
)


@dataclass(frozen=True, eq=False)
class Replication(Study[Cell]):
    """Tables of a paper, to be run again.

    Attributes:
        tables: from `Paper.tables`.
        data: the ratings that the Jester tables were made with.
        paper: the paper that the tables are of.
    """

    tables: tuple[PublishedTable, ...]
    data: RatingsData
    paper: Paper = SP_BAI

    def settings(self) -> dict[str, object]:
        """The paper, and which ratings these are: their name, and a digest of their numbers."""
        digest = hashlib.sha256(self.data.ratings.tobytes())
        digest.update(b"" if self.data.weights is None else self.data.weights.tobytes())
        data = f"{self.data.name}, {digest.hexdigest()[:16]}"
        return {"paper": self.paper.name, "data": data}

    def judge(self, results: StudyResults[Cell]) -> list[Cell]:
        """Every cell with its verdict, in the order of the tables."""
        return add_verdicts(
            [
                cell
                for table in self.tables
                for row in table.rows
                for cell in row_cells(table, row, results.of(table, row))
            ]
        )

    def section_keys(self) -> Iterable[str]:
        """The tables of the paper."""
        return self.paper.builders

    def report(self, results: StudyResults[Cell]) -> Report:
        """Every published figure beside ours, and the differences that the paper draws."""
        runs, synthetic = results.runs, self.data.synthetic
        rated = any(row.environment.name == self.data.name for _, row in self.rows())
        facts = [
            ("Runs", f"{runs} of each row; the paper had {self._published_runs()}."),
            ("Seed", f"{results.seed}; run i of every row starts from the same state."),
            ("Version", f"bestarm {__version__}"),
        ]
        if rated:
            checked = f" SHA-256 of the file: {self.data.sha256}." if self.data.sha256 else ""
            facts.append(("Ratings", prose(self.data.source) + checked))
        sections = [self._section(table, results) for table in self.tables]
        if any(table.reruns for table in self.tables):
            sections.append(self._causes(results.cells))
        picked = [each for table in self.tables for each in choices(results, table)]
        if picked:
            sections.append(_choices_section(picked))
        drawn = paper_differences(results, self.tables)
        if drawn:
            sections.append(self._differences(drawn))
        return Report(
            title=f"Replication report: {self.paper.title}",
            lead=f"{verdicts_in_words(results.cells)}.",
            facts=tuple(facts),
            summary=self._summary(results.cells),
            sections=tuple(sections),
            template="replication.html",
            context={
                "paper": self.paper,
                "made_up": rated and synthetic,
                "real": rated and not synthetic,
                "runs": runs,
                "published_runs": self._published_runs(),
                "differences": any(paper_table.differences for paper_table in self.tables),
                "compared": bool(drawn),
                "tags": _TAGS,
                "command": self._command(results),
            },
            cells=(_CELLS.split(","), *map(_csv_line, results.cells)),
        )

    def _summary(self, cells: Sequence[Cell]) -> TextTable:
        """How many cells of each table have which verdict."""
        lines = []
        for table in self.tables:
            counts = verdict_counts(cell for cell in cells if cell.table == table.key)
            shown = (sum(counts), *counts) if table.judged else (_NONE,) * 4
            entries = tuple(Entry(str(each)) for each in shown)
            lines.append(Line(table.title, entries, anchor=table.key))
        heads = ("cells", "consistent", "within noise", "differ")
        return TextTable((Column("Table", align="l"), *map(Column, heads)), tuple(lines))

    def _section(self, table: PublishedTable, results: StudyResults[Cell]) -> Section:
        cells = [cell for cell in results.cells if cell.table == table.key]
        runs, own = results.runs, {row.key: results.of(table, row) for row in table.rows}
        warning = ""
        if table.heavy_tailed and runs < _ENOUGH:
            warning = (
                f"With {runs} runs the verdicts on these pulls may be false alarms: a few long "
                f"runs carry their means, and {runs} runs contain few of them. Use 1000 or more."
            )
        return Section(
            key=table.key,
            title=table.title,
            text=prose(table.protocol),
            tables=(main_table(table, cells),),
            warning=warning,
            caption=f"{table.title}. {prose(table.protocol)} Ours: {runs} runs with seed "
            f"{results.seed} and 95{THIN_SPACE}% intervals; published: {table.published_runs} "
            "runs.",
            legend=_LEGEND,
            notes=tuple((letter, prose(sentence)) for sentence, letter in table.notes.items()),
            draw=partial(table_pictures, table, own, cells),
        )

    def _causes(self, cells: Sequence[Cell]) -> Section:
        """Every cell that differs: the authors' code run again, and why."""
        tables = {table.key: table for table in self.tables}
        lines = []
        for cell in cells:
            table = tables[cell.table]
            rerun = table.reruns.get((cell.row, cell.metric))
            if cell.verdict != "differs" or cell.printed is None:
                continue
            decimals = 0 if cell.metric == "pulls" else 2
            label = next(row.label for row in table.rows if row.key == cell.row)
            theirs = (
                [Entry(_NONE), Entry(_NONE)] if rerun is None else _rerun_entries(rerun, decimals)
            )
            cause = "not known" if rerun is None else f"{rerun.cause} {rerun.link}"
            entries = (
                Entry(number(cell.printed.value, decimals)),
                *theirs,
                Entry(number(cell.value, decimals if decimals == 0 else 3)),
                Entry(cause),
            )
            lines.append(Line(f"{label}, {cell.metric}", entries, section=table.title))
        heads = ("published", "authors’ code rerun", "one index corrected", "ours")
        columns = (
            Column("Cell", align="l"),
            *map(Column, heads),
            Column("cause", align="l"),
        )
        return Section(
            "causes",
            "Why cells differ",
            (TextTable(columns, tuple(lines)),) if lines else (),
            "The authors’ code was run from a checkout (benchmarks/authors_code.py); its "
            "runs stand below its figures. One index corrected: where it reads the diagonal of an "
            "inverse matrix, it has the quadratic form."
            if lines
            else "No cell differs.",
        )

    def _differences(self, drawn: Sequence[PaperDifference]) -> Section:
        """The differences that the paper draws between methods, by table."""
        titles = {table.key: table.title for table in self.tables}
        columns = (
            Column("Difference", align="l"),
            Column("published"),
            Column("ours", interval=True),
            Column("finding", align="c", marks={}),
            Column("reading", align="l"),
        )
        lines = []
        for part in drawn:
            decimals = 0 if part.metric == "pulls" else 3
            ends = f"{signed(part.low, decimals)} to {signed(part.high, decimals)}"
            published = signed(part.printed, min(decimals, 2))
            entries = (
                Entry(published, small=(p_text(part.p_value),)),
                Entry(signed(part.value, decimals), interval=ends),
                Entry(part.finding, kind=_TAGS[part.finding]),
                Entry(part.sentence),
            )
            name = f"{part.first} − {part.second}, {part.metric}"
            lines.append(Line(name, entries, section=titles[part.table]))
        return Section(
            "differences",
            "Differences the paper draws",
            (TextTable(columns, tuple(lines)),),
            "The paper’s conclusions rest on differences between methods. Each is judged twice: "
            "could 100 runs of two equal methods have shown the printed one, and what do our runs, "
            "taken in pairs, show?",
        )

    def _published_runs(self) -> str:
        """The number of runs behind the published figures, or from how many to how many."""
        found = {
            printed.runs
            for table in self.tables
            for row in table.rows
            if (printed := table.printed(row, table.rate)) is not None
        }
        least, most = min(found, default=RUNS), max(found, default=RUNS)
        return str(least) if least == most else f"{least} to {most}"

    def _command(self, results: StudyResults[Cell]) -> str:
        names = [table.key for table in self.tables]
        words = ["bestarm reproduce", *([] if names == list(self.paper.builders) else names)]
        if self.paper is not SP_BAI:
            words.append(f"--paper {self.paper.name}")
        return " ".join([*words, f"--runs {results.runs}", f"--seed {results.seed}"])


def _choices_section(picked: Sequence[Choice]) -> Section:
    """The baselines that the paper chooses by their error, and SP-BAI beside them."""
    lines = []
    for each in picked:
        shares = ", ".join(f"{label} {share:.0%}" for label, share in each.shares if share >= 0.005)
        entries = (each.published, shares, f"{each.fewer:.0%}", f"{each.qualified:.0%}")
        lines.append(Line(each.method.upper(), tuple(map(Entry, entries))))
    columns = (
        Column("Method", align="l"),
        Column("the paper’s pick", align="l"),
        Column("picks in experiments of 100 runs", align="l"),
        Column("SP-BAI takes fewer pulls"),
        Column("SP-BAI errs below 10 %"),
    )
    return Section(
        "choices",
        "Baselines chosen by their error",
        (TextTable(columns, tuple(lines)),),
        "The paper sets SP-BAI beside the σ with the fewest pulls among those that err in less "
        "than 10 % of 100 runs. That choice is random: our runs, drawn again 100 at a time, make "
        "it anew.",
    )


def main_table(table: PublishedTable, cells: Sequence[Cell]) -> TextTable:
    """Our figures of every row beside the published ones, with verdicts."""
    decimals = _printed_decimals(cells)
    rate = "" if not table.counts_pulls else table.rate.capitalize()
    columns = [
        Column("ours" if rate else table.rate, rate, interval=True),
        Column("published", rate),
        Column("verdict", rate, align="c", marks=_MARKS),
    ]
    if table.counts_pulls:
        columns[:0] = [
            Column("mean", "Pulls", interval=True),
            Column("sd", "Pulls", page_only=True),
            Column("median", "Pulls"),
            Column("published", "Pulls"),
            Column("verdict", "Pulls", align="c", marks=_MARKS),
        ]
    entries = {
        row.key: tuple(
            entry
            for cell in cells
            if cell.row == row.key
            for entry in _cell_entries(cell, decimals)
        )
        for row in table.rows
    }
    return TextTable((Column("Method", align="l"), *columns), _lines(table, entries))


def _rerun_entries(rerun: Rerun, decimals: int) -> list[Entry]:
    figures = ((rerun.value, rerun.runs), (rerun.corrected, rerun.corrected_runs))
    return [
        Entry(_NONE)
        if value is None
        else Entry(
            number(value, decimals),
            small=(f"{runs} runs",),
            printed=f"{number(value, decimals)} ({runs})",
        )
        for value, runs in figures
    ]


def _lines(table: PublishedTable, entries: dict[str, tuple[Entry, ...]]) -> tuple[Line, ...]:
    return tuple(
        Line(
            row.label,
            entries[row.key],
            note=table.notes.get(row.protocol, ""),
            section="Not in the paper" if row.ours else "",
        )
        for row in table.rows
    )


def _cell_entries(cell: Cell, printed_decimals: int) -> list[Entry]:
    """Our figure, of pulls also their spread and median, the published one, and the verdict."""
    printed, published_runs = cell.printed, RUNS if cell.printed is None else cell.printed.runs
    if cell.metric == "pulls":
        own, ends = printed_decimals, _ends(cell)
    else:
        own, ends = 2 if cell.runs <= RUNS else 3, 3
        printed_decimals = 2 if published_runs <= RUNS else 4
    interval = f"{number(max(cell.low, 0.0), ends)} to {number(cell.high, ends)}"
    if cell.low == cell.high:
        interval = "exact"
    elif math.isnan(cell.low):
        interval = _NONE
    entries = [Entry(number(cell.value, own), interval)]
    if cell.metric == "pulls":
        assert cell.quantiles is not None
        spread = "" if cell.spread is None else number(cell.spread, ends)
        entries += [Entry(spread), Entry(number(cell.quantiles[0.5]))]
    sd = None if printed is None else printed.spread
    entries.append(
        Entry(
            "" if printed is None else number(printed.value, printed_decimals),
            small=() if sd is None else (f"± {number(sd, printed_decimals)}",),
        )
    )
    if cell.verdict is None or cell.p_value is None:
        return [*entries, Entry()]
    title = f"{p_text(cell.p_value)} before correction"
    return [*entries, Entry(cell.verdict, kind=_TAGS[cell.verdict], title=title)]


def _printed_decimals(cells: Sequence[Cell]) -> int:
    """Of the published figures of a table: at most two."""
    values = [cell.printed.value for cell in cells if cell.printed is not None]
    return next((d for d in (0, 1) if all(round(value, d) == value for value in values)), 2)


def _ends(cell: Cell) -> int:
    """The decimals of the ends of an interval of pulls."""
    return 0 if cell.value >= 100 else 1


def number(value: float, decimals: int = 0) -> str:
    """A number with thin spaces between thousands and a true minus; a dash for a missing one."""
    if math.isnan(value):
        return _NONE
    text = f"{value:,.{decimals}f}".replace(",", THIN_SPACE)
    return text.replace("-", _MINUS) if re.search("[1-9]", text) else text.lstrip("-")


def prose(text: str) -> str:
    """A sentence with its numbers as everywhere else: 5,000,000 and 5 000 000 alike."""
    return re.sub(r"(?<=\d)[ ,](?=\d{3}(?!\d))", THIN_SPACE, text)


def p_text(value: float) -> str:
    """A p-value with two or three digits."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.{3 if value < 0.1 else 2}f}"


def signed(value: float, decimals: int) -> str:
    """A number with its sign, unless it is printed as 0."""
    text = number(value, decimals)
    return f"+{text}" if value > 0 and re.search("[1-9]", text) else text


def verdict_counts(cells: Iterable[Cell]) -> list[int]:
    """How many cells there are of each verdict, in the order of `VERDICTS`."""
    verdicts = [cell.verdict for cell in cells]
    return [verdicts.count(verdict) for verdict in VERDICTS]


def verdicts_in_words(cells: Sequence[Cell]) -> str:
    """How many cells there are of each verdict, in words."""
    same, noise, differ = verdict_counts(cells)
    total = same + noise + differ
    return (
        f"{total} {'cell' if total == 1 else 'cells'}: {same} consistent, {noise} within noise, "
        f"{differ} {'differs' if differ == 1 else 'differ'}"
    )


def _csv_line(cell: Cell) -> Sequence[object]:
    quantiles = [None] * 5 if cell.quantiles is None else list(cell.quantiles.values())
    printed = (None, None) if cell.printed is None else (cell.printed.value, cell.printed.spread)
    ours = (cell.value, cell.low, cell.high, cell.spread, cell.runs, *quantiles)
    figures = [*ours, *printed, cell.p_value]
    known = [None if figure is None or math.isnan(figure) else figure for figure in figures]
    return [cell.table, cell.row, cell.metric, *known, cell.verdict]
