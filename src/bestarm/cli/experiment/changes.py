"""Commands that change an experiment: `ask`, `tell`, `fail`, `add`, `retire`, `pause`, …"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bestarm.cli.command import command, read_number
from bestarm.cli.experiment.command import on_experiment, read_pairs
from bestarm.cli.files import UserFile
from bestarm.cli.output import Result, remark
from bestarm.defaults import STORE
from bestarm.errors import BestArmError, InvalidInputError
from bestarm.units import plural

if TYPE_CHECKING:
    from bestarm.live import Batch, Experiment, Receipt

_TRUTH = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
_NO_ID = {"none", "null"}  # of an assignment made after the end, as printed in words and in JSON
_TABLE = "Give a table with the columns id and reward."
_NAMES = ("id", "unit", "decision_point")  # of its columns
_NONE_RECORDED = (
    "Nothing of the table is recorded: correct it, and tell all of it again. What is on record "
    "already is not counted twice."
)
_Told = Sequence[tuple[Any, dict[str, float]]]  # ids or units, with values by name


@on_experiment
def ask(
    experiment: Experiment,
    count: int | None = None,
    *,
    unit: str | None = None,
    decision_point: str | None = None,
    unavailable: bool = False,
    request_id: str | None = None,
    covariates: Path | None = None,
) -> Result:
    """Get assignments: what to try next, drawn and on record; after the end, the option to use.

    Args:
        count ([COUNT]): How many are wanted; 1 if left out, or one for each row of --covariates.
            Where options come in blocks, so many rounds of several.
        unit (TEXT): Whom or what it is for: the same unit gets the same assignment again.
        decision_point (TEXT): That of the unit, where it has several.
        unavailable: Record that the unit is not available at this decision point; nothing is drawn.
        request_id (TEXT): A name for this request: repeated under it, it gives the same
            assignments.
        covariates (PEOPLE.csv): What is known of each, one row per assignment; a forecaster uses
            it. A column unit names units, a column decision_point their decision points, and a
            column forecast holds forecasts of your own.
    """
    if sys.stdout is None:
        raise BestArmError(
            "Nothing was assigned: output is closed, so it could not be printed.",
            field="output",
            remedy="Run it with standard output open.",
        )
    known: dict[str, Any] = {} if covariates is None else _read_known(covariates)
    if count is None:
        count = max(map(len, known.values()), default=1)
    if unit is not None:
        known["unit"] = unit
    if decision_point is not None:
        known["decision_point"] = decision_point
    batch = experiment.ask(count, request_id=request_id, available=not unavailable, **known)
    rounds = len(set(batch.rounds.tolist()))
    return Result(
        {
            "state": batch.state,
            "phase": batch.phase,
            "waiting": batch.waiting,
            "assignments": [asdict(assignment) for assignment in batch],
        },
        _lines(batch, rounds),
        note=_note(batch, rounds, 0 if unavailable else count),
        unprinted=_unprinted(experiment.name, batch, count, request_id) if batch else "",
    )


def _note(batch: Batch, rounds: int, count: int) -> str:
    if not batch.experiment:
        use = "this is the option to use. " if count else ""
        return f"The experiment is {batch.state}: {use}Nothing is recorded."
    if not count:
        return "Recorded as not available: nothing was drawn."
    return _why_fewer(batch, rounds, count) if rounds < count else ""


def _read_known(path: Path) -> dict[str, list[Any]]:
    """Covariates and forecasts of a file whose first row names the columns."""
    file = UserFile(path, "covariates", "Give a table with a header, and one row per assignment.")
    rows = file.records()
    if not rows:
        raise file.wrong("has no rows below a header.")
    named = [name for name in ("unit", "decision_point") if name in rows[0]]
    known: dict[str, list[Any]] = {name: [row.pop(name) or None for row in rows] for name in named}
    people = [{name: _covariate(text) for name, text in row.items() if text} for row in rows]
    if "forecast" in rows[0]:
        known["forecasts"] = [person.pop("forecast", None) for person in people]
    if rows[0].keys() - {"forecast"}:
        known["covariates"] = people
    return known


def _covariate(text: str) -> float | bool | str:
    number = read_number(text)
    return {"true": True, "false": False}.get(text.lower(), text) if number is None else number


def _unprinted(name: str, batch: Batch, count: int, request_id: str | None) -> str:
    if not batch.experiment:
        return "Nothing was assigned: the experiment is over."
    made = f"Assignments {batch.ids[0]} to {batch.ids[-1]} were made but could not be printed."
    if request_id is None:
        return f"{made} bestarm experiment export {name} --out FILE.csv shows them."
    return f"{made} Ask for {count} again with --request-id {request_id!r} to see them."


def _lines(batch: Batch, rounds: int) -> list[str]:
    """A line per assignment; where several make up a round, with its number in front."""
    width = max((len(str(number)) for number in batch.ids[-1:]), default=1)
    ids = [str(number).lower() for number in batch.ids]
    lines = [f"{number:>{width}}  {each.label}" for number, each in zip(ids, batch, strict=True)]
    if rounds == len(batch):
        return lines
    last = len(str(batch.rounds[-1]))
    return [
        f"round {number:>{last}}  {line}"
        for number, line in zip(batch.rounds.tolist(), lines, strict=True)
    ]


def _why_fewer(batch: Batch, rounds: int, count: int) -> str:
    what = "assigned" if rounds == len(batch) else "rounds made"
    made = f"{rounds} of {count} {what}" if batch else "Nothing was assigned"
    if batch.waiting:
        return (
            f"{made}: {plural(batch.waiting, 'outcome')} of phase {batch.phase} must arrive first."
        )
    if batch.state != "running":
        return f"{made}: the experiment is {batch.state}."
    return f"{made}: the plan of phase {batch.phase} does not allow more."


@on_experiment
def tell(
    experiment: Experiment,
    outcome: list[str] | None = None,
    *,
    unit: str | None = None,
    decision_point: str | None = None,
    guardrail: list[str] | None = None,
    from_: Path | None = None,
) -> Result:
    """Record the outcome of one assignment or of many: all of them or, on an error, none.

    Args:
        outcome ([ID REWARD]): An assignment's id and its reward: a number, yes or no. With --unit,
            the reward alone. Of one made after the end, whose id is none, nothing is recorded.
        unit (TEXT): The unit of the assignment, instead of its id.
        decision_point (TEXT): That of the unit, if it was asked for with one.
        guardrail (NAME=VALUE): The value of a guardrail, with the reward or without it. Repeat it
            for more.
        from_ (OUTCOMES.csv): Read ids, or units, and rewards from this file, CSV or JSON, or from
            standard input if it is -. It may have a column per guardrail.
    """
    from bestarm.live.tell import name_told

    pair, size = outcome or [], 2 if unit is None else 1
    pairs = read_pairs(guardrail, "guardrail", str, form="name=value", example="refund=0")
    values = {name: _read_reward(text, field=name) for name, text in pairs.items()}
    skipped = 0
    if from_ is not None and not pair and unit is None and not values:
        rails = [each.name for each in experiment.stored_spec("told").guardrails]
        table = read_outcomes(from_, rails)
        receipt, skipped = _tell_table(experiment, table), table.skipped
    elif from_ is None and size - bool(values) <= len(pair) <= size:
        named = name_told(_read_id(pair[0]) if unit is None else None, unit, decision_point)
        rewards = {"reward": _read_reward(pair[-1])} if len(pair) == size else {}
        receipt = experiment.tell_many([(named, rewards | values)])
    else:
        wanted = "an id and a reward" if unit is None else "a reward"
        raise InvalidInputError(
            f"Give {wanted}, or a table of them."
            if len(pair) in {0, size}
            else f"Give {wanted}; got {' '.join(pair)!r}.",
            field="outcome",
            value=pair,
            remedy="For example: bestarm experiment tell NAME 17 0.5, or --from outcomes.csv.",
        )
    state = experiment.state
    if receipt.late:
        lost = "it is lost" if receipt.late == 1 else "they are lost"
        when = f"the experiment is {state}" if state in {"stopped", "finished"} else lost
        remark(f"{receipt.late} kept and flagged, but not used: {when}.")
    if skipped:
        rows = f"{plural(skipped, 'row')} without a reward"
        remark(f"{rows} {'was' if skipped == 1 else 'were'} skipped.")
    return Result({"state": state, **asdict(receipt), "skipped": skipped}, [f"{receipt}."])


@on_experiment
def fail(experiment: Experiment, ids: list[str], *, reason: str = "failed") -> Result:
    """Record that the outcomes of assignments will never come.

    Args:
        ids (ID...): Ids of assignments.
        reason (TEXT): The reason, in words.
    """
    numbers = [_read_id(text) for text in ids]
    experiment.fail_many(numbers, reason)
    words = f"Recorded: no outcome will come for {', '.join(map(str, numbers))}."
    return Result({"state": experiment.state, "failed": numbers}, [words])


def _tell_table(experiment: Experiment, table: OutcomeTable) -> Receipt:
    """Tell all outcomes of a table; an error names the row at fault."""
    told = table.told
    try:
        told = experiment.with_ids(told)
        return experiment.tell_many(told)
    except InvalidInputError as error:
        for place, (named, values) in zip(table.places, told, strict=True):
            # Ids beyond all that there can be are told as the nearest.
            known = min(max(named, -1), 2**63 - 1) if isinstance(named, int) else named
            value = error.value if error.field in _NAMES else values.get(error.field)
            if known is not None and (known, value) == (error.about, error.value):
                raise table.file.wrong_row(place, error, _NONE_RECORDED) from error
        raise


def _read_id(text: str) -> int | None:
    """An assignment's id: a whole number in plain digits, or none."""
    if text.strip().lower() in _NO_ID:
        return None
    try:
        if not text.strip().lstrip("+-").isdecimal():
            raise ValueError  # noqa: TRY301
        return int(text)
    except ValueError:
        raise InvalidInputError(
            f"`id` must be a whole number; got {text!r}.",
            field="id",
            value=text,
            remedy="Use the ids that `ask` printed.",
        ) from None


def _read_reward(text: str, field: str = "reward") -> float:
    """A number, or true, false, yes or no; whether it can be a reward the experiment decides."""
    value = _TRUTH.get(text.strip().lower(), read_number(text))
    if value is None:
        raise InvalidInputError(
            f"`{field}` must be a number, or true or false; got {text!r}.",
            field=field,
            value=text,
            remedy="Write decimals with a point: 0.5." if "," in text else "For example 0.5.",
        )
    return value


class OutcomeTable(NamedTuple):
    """What a file tells, row by row; `skipped` rows tell nothing yet."""

    file: UserFile
    places: Sequence[str]  # of the rows, in words
    told: _Told
    skipped: int


def read_outcomes(path: Path, guardrails: Sequence[str] = ()) -> OutcomeTable:
    """What a CSV or JSON file tells, by name.

    A header names the columns `id` and `reward` (or `outcome`), and those of guardrails, among
    others; without one there are the first two. Instead of ids there may be columns `unit` and, if
    need be, `decision_point`.
    """
    file = UserFile(path, "from", _TABLE)
    places, told = list[str](), list[tuple[Any, dict[str, float]]]()
    columns, skipped = None, 0
    for place, fields in file.rows():
        try:
            if columns is None:
                columns = _columns(fields, guardrails)
                if columns is not None:
                    continue
                columns = {"id": 0, "reward": 1}
                if len(fields) != 2:
                    raise _wrong(f"Without a header there must be 2 fields; got {len(fields)}.")
            row = _read_row(fields, columns)
        except InvalidInputError as error:
            raise file.wrong_row(place, error, _NONE_RECORDED) from None
        if row[1]:
            places.append(place)
            told.append(row)
        else:
            skipped += 1
    return OutcomeTable(file, places, told, skipped)


def _read_row(fields: Sequence[str], columns: Mapping[str, int]) -> tuple[Any, dict[str, float]]:
    """The id or the unit of a row, and its values by name."""
    from bestarm.live.inputs import read_keys

    if len(fields) <= max(columns.values()):
        raise _wrong("A field is missing.")
    texts = {name: fields[place] for name, place in columns.items()}
    number, unit, point = (texts.pop(name, None) for name in _NAMES)
    told = {name: _read_reward(text, name) for name, text in texts.items() if text}
    if not told:
        return None, told
    if number is not None:
        return _read_id(number), told
    [key] = read_keys([unit or ""], [point or None])
    return key, told


def _columns(fields: Sequence[str], guardrails: Sequence[str]) -> dict[str, int] | None:
    """Where ids or units, rewards and guardrails are, if these are names; None if values."""
    names = [field.lower() for field in fields]
    if all(not name or name.lstrip("+-")[:1].isdecimal() or name in _TRUTH for name in names):
        return None
    found = [name for name in ("reward", "outcome") if name in names]
    values = {name: fields.index(name) for name in guardrails if name in fields}
    if not {"id", "unit"} & set(names) or not (found or values):
        raise _wrong(f"There are no columns 'id' and 'reward': it has {', '.join(fields)}.")
    rewards = {"reward": names.index(found[0])} if found else {}
    return {name: names.index(name) for name in _NAMES if name in names} | rewards | values


def _wrong(what: str) -> InvalidInputError:
    return InvalidInputError(what, field="from", remedy=_TABLE)


@on_experiment
def erase(experiment: Experiment, unit: str) -> Result:
    """Erase a unit's name, decision points and covariates; its outcomes stay, without the name.

    Args:
        unit (UNIT): As it was asked for.
    """
    rounds = experiment.erase(unit)
    words = f"Erased {unit} from {experiment.name}: its outcomes stay, without the name."
    return Result({"state": experiment.state, "rounds": rounds}, [words])


@on_experiment
def pause(experiment: Experiment) -> Result:
    """Make no assignments until `resume`; outcomes are still recorded."""
    experiment.pause()
    return _state(experiment)


@on_experiment
def resume(experiment: Experiment) -> Result:
    """Continue after `pause`."""
    experiment.resume()
    return _state(experiment)


@on_experiment
def stop(experiment: Experiment, *, reason: str = "") -> Result:
    """End an experiment for good; outcomes that come later are kept and flagged.

    What `ask` gives from then on is printed: the option that was shown to be the best, or else the
    control, or the leader where there is none.

    Args:
        reason (TEXT): The reason, in words.
    """
    from bestarm.live.ask import is_shown, served_target
    from bestarm.live.state import last_recommendation

    experiment.stop(reason)
    state = experiment.state
    with experiment.read() as snapshot:
        end, problem = last_recommendation(snapshot), experiment.options_at(snapshot).problem
    if end is None:  # the policy fails, as one of another version does
        return _state(experiment)
    target = served_target(end, experiment.traits.control)
    use = f"`ask` gives '{problem.target_labels[target]}'"
    if target == experiment.traits.control:
        use += ", the control"
    since = "From" if is_shown(end) else "No option was shown to be the best: from"
    words = f"{experiment.name} is {state}. {since} now on {use}."
    return Result({"state": state, "served": problem.target_labels[target]}, [words])


@on_experiment
def archive(experiment: Experiment, *, undo: bool = False) -> Result:
    """Leave an experiment out of lists; it stays on record, and goes on.

    Args:
        undo: Show it in lists again.
    """
    experiment.archive(undo=undo)
    words = "shown in lists again" if undo else "archived: `list --archived` shows it"
    return Result({"archived": not undo}, [f"{experiment.name} is {words}."])


@on_experiment
def describe(experiment: Experiment, text: str) -> Result:
    """Change what an experiment is about, in words. The log keeps what it was before.

    Args:
        text: The new description.
    """
    experiment.describe(text)
    return Result({"description": text}, [f"{experiment.name} is described anew."])


@command
def delete(name: str, again: str, *, store: str = STORE) -> Result:
    """Delete an experiment for good, with all that is on record of it.

    Args:
        name (NAME): Its name.
        again (NAME): Its name once more, as a confirmation.
    """
    from bestarm.live.inputs import normal_form
    from bestarm.live.store import Ledger, Store

    if normal_form(name) != normal_form(again):
        raise InvalidInputError(
            f"The names differ: {name!r} and {again!r}. Nothing was deleted.",
            field="again",
            value=again,
            remedy="Repeat the name of the experiment that is to be deleted.",
        )
    database = Store(store)
    Ledger.open(database, normal_form(name)).delete()
    database.close()
    return Result({"experiment": name, "deleted": True}, [f"{name} is deleted."])


def _state(experiment: Experiment) -> Result:
    return Result({"state": experiment.state}, [f"{experiment.name} is {experiment.state}."])


@on_experiment
def add(experiment: Experiment, option: str, *, features: str | None = None) -> Result:
    """Add an option: it is drawn from the next plan on, which is made at once.

    Args:
        option: Its name, which no option had before.
        features (NUMBERS): Its features, like 0.5,1,0: as many as the others have; left out, it
            shares none with them, as is right for options without features.
    """
    experiment.add(option, features=None if features is None else _read_features(features))
    words = f"{experiment.name} compares {_quoted(_left(experiment))}."
    return Result({"state": experiment.state, "options": _left(experiment)}, [words])


@on_experiment
def retire(experiment: Experiment, option: str, *, reason: str) -> Result:
    """Retire an option for good; outcomes of assignments given out are still told, and count.

    Args:
        option: Its name.
        reason (TEXT): Why, in words.
    """
    experiment.retire(option, reason=reason)
    words = f"{experiment.name} goes on with {_quoted(_left(experiment))}."
    return Result({"state": experiment.state, "options": _left(experiment)}, [words])


def _left(experiment: Experiment) -> list[str]:
    with experiment.read() as snapshot:
        return experiment.options_at(snapshot).left


def _quoted(labels: list[str]) -> str:
    return ", ".join(f"'{label}'" for label in labels)


def _read_features(text: str) -> list[float]:
    numbers = [read_number(part) for part in text.replace(",", " ").split()]
    if not numbers or None in numbers:
        raise InvalidInputError(
            f"`features` must be numbers, with commas or spaces between them; got {text!r}.",
            field="features",
            value=text,
            remedy="For example --features 0.5,1,0.",
        )
    return [number for number in numbers if number is not None]


@on_experiment
def expire(experiment: Experiment) -> Result:
    """Settle assignments whose lease or window has ended, as asking and telling does too."""
    any_ended = experiment.expire()
    now = experiment.status()
    words = f"{experiment.name}: {now}." if any_ended else "No lease or window has ended."
    return Result({"state": now.state, "expired": any_ended}, [words])


@on_experiment
def lease(experiment: Experiment, length: str) -> Result:
    """Change how long outcomes may take from now on; what is lost stays lost.

    Args:
        length (TIME): 90s, 30m, 12h or 2d; none to wait for ever.
    """
    from bestarm.live.values import in_time

    experiment.change_lease(None if length == "none" else length)
    state, seconds = experiment.state, experiment.lease
    takes = "any time" if seconds is None else in_time(seconds)
    words = f"Outcomes of {experiment.name} may take {takes} from now on."
    return Result({"state": state, "lease": seconds}, [words])
