"""The routes: they do over HTTP what the library does."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import httpx
import pytest
from served import ARMS, JSON, Served, create, get, outcomes, receipt, wrong

from bestarm import Problem
from bestarm.live import Experiment
from bestarm.policies import AnytimeBAI
from bestarm.server.guard import Limits
from bestarm.server.tokens import Role

pytest_plugins = ("api_fixtures",)

BOUNDED = {"bounds": [0, 1]}
DRINKS: dict[str, Any] = {"options": ["tea", "coffee"], "policy_options": BOUNDED}
BLOCKS: dict[str, Any] = {
    "options": ["tea", "coffee", "water"],
    "policy_options": {"bounds": [0, 1], "block": 3},
    "seed": 3,
}


def library(served: Served, path: str) -> Experiment:
    """The same experiment, opened beside the server."""
    return Experiment.open(served.url, unquote(path.rpartition("/")[2]))


def test_an_experiment_over_http_is_the_experiment_of_the_library(
    api: httpx.Client, experiment: str
) -> None:
    policy = AnytimeBAI(Problem([[1, 0], [0, 1]], delta=0.05), bounds=(0, 1), seed=1)
    beside = Experiment(policy, seed=1)
    while not beside.finished:
        given = api.post(f"{experiment}/ask", json={"count": 64}).json()["assignments"]
        expected = beside.ask(64)
        assert [each["id"] for each in given] == list(expected.ids)
        assert [each["arm"] for each in given] == expected.arms.tolist()
        assert [each["probability"] for each in given] == expected.probabilities.tolist()
        rewards = {each.id: float((each.arm + each.id) % 3 < 2 - each.arm) for each in expected}
        told = api.post(f"{experiment}/tell", json=outcomes(rewards)).json()
        assert told == receipt(recorded=len(rewards))
        beside.tell_many(rewards)
    assert api.get(experiment).json()["state"] == "finished"
    found, recommendation = api.get(f"{experiment}/recommendation").json(), beside.recommendation()
    assert found["label"] == recommendation.label
    assert found["error_bound"] == recommendation.error_bound == 0.05
    assert found["statement"] == recommendation.statement
    assert (found["final"], found["claims"], found["contradicted"]) == (True, 0.05, False)
    assert found["chosen_labels"] == found["active_labels"] == [recommendation.label]
    late = api.post(f"{experiment}/ask", json={}).json()
    [served], same = late["assignments"], asdict(beside.ask()[0])
    assert served.items() <= same.items()
    assert (served["label"], served["experiment"], late["state"]) == ("0", False, "finished")


def test_the_lead_over_a_control_is_that_of_the_library(api: httpx.Client, served: Served) -> None:
    options = BOUNDED | {"control": "old", "tolerance": 0.01}
    lead = create(api, "lead", options=["old", "new"], policy_options=options, seed=1)
    assert api.get(f"{lead}/recommendation").json()["effect"] is None
    with library(served, lead) as beside:
        while not beside.finished:
            given = beside.ask(64)
            beside.tell_many([(each.id, float(each.id % 10 < 4 + 5 * each.arm)) for each in given])
        expected = beside.recommendation().effect
    assert expected is not None
    assert expected.lower > 0
    assert api.get(f"{lead}/recommendation").json()["effect"] == asdict(expected)


def test_health_and_export_are_those_of_the_library(
    api: httpx.Client, served: Served, tmp_path: Path
) -> None:
    export = create(api, "export", options=['a,"b"', "=1+1", "<b>"], noise=1)
    api.post(f"{export}/ask", json={"count": 9})
    api.post(f"{export}/tell", json=outcomes({number: 0.1 * number for number in range(7)}))
    with library(served, export) as beside:
        checks = [
            (each["name"], each["level"]) for each in api.get(f"{export}/health").json()["checks"]
        ]
        assert checks == [(each.name, each.level) for each in beside.health()]
        for layout in ("assignments", "mrt"):
            beside.export(tmp_path / "here.csv", layout=layout)
            sent = api.get(f"{export}/export", params={"layout": layout})
            assert sent.content == (tmp_path / "here.csv").read_bytes()
            assert sent.headers["content-type"].startswith("text/csv")
            named = f'attachment; filename="{layout}.csv"'
            assert sent.headers["content-disposition"] == named
    wrong(api.get(f"{export}/export", params={"layout": "../x"}), 422, "invalid_input")


def test_pause_resume_stop_and_their_repetition(api: httpx.Client, experiment: str) -> None:
    for _ in range(2):
        assert api.post(f"{experiment}/pause").json()["state"] == "paused"
    given = api.post(f"{experiment}/ask", json={"count": 3}).json()
    assert (given["assignments"], given["state"]) == ([], "paused")
    for _ in range(2):
        assert api.post(f"{experiment}/resume").json()["state"] == "running"
    for body in ({"reason": "the season is over"}, None):
        assert api.post(f"{experiment}/stop", json=body).json()["state"] == "stopped"
    wrong(api.post(f"{experiment}/resume"), 422, "invalid_input")
    kinds = [event["kind"] for event in api.get(f"{experiment}/events").json()["events"]]
    assert kinds == ["created", "planned", "paused", "resumed", "stopped"]


def test_an_experiment_is_described_anew(api: httpx.Client, experiment: str) -> None:
    for _ in range(2):
        sent = api.post(f"{experiment}/describe", json={"description": "Hot or cold?"})
        assert sent.json()["state"] == "running"
    events = api.get(f"{experiment}/events").json()["events"]
    assert [each["data"] for each in events if each["kind"] == "described"] == [
        {"description": "Hot or cold?"}
    ]
    wrong(api.post(f"{experiment}/describe", json={}), 422, "invalid_input")


def test_outcomes_with_a_window(api: httpx.Client, served: Served) -> None:
    body = DRINKS | {"window": "7d", "otherwise": 0}
    window = create(api, "window", **body)
    api.post(f"{window}/ask", json={"count": 2})
    for reward in (1, 0):  # a conversion, and its cancellation
        told = api.post(f"{window}/tell", json=outcomes({0: reward}))
        assert told.json() == receipt(recorded=1, held=1)
    assert api.get(window).json()["early"] == 1
    with library(served, window) as beside:
        assert (beside.window, beside.otherwise) == (604_800.0, 0.0)
    wrong(api.post("/experiments", json=body | {"name": "x", "lease": 60}), 422, "invalid_input")


def test_a_lease_can_be_changed_until_the_end(
    api: httpx.Client, served: Served, experiment: str
) -> None:
    with library(served, experiment) as beside:
        for lease, seconds in ((60, 60), ("1m", 60), (0.5, 0.5), ("2h", 7200), (None, None)):
            changed = api.post(f"{experiment}/lease", json={"lease": lease})
            assert changed.json()["state"] == "running"
            assert beside.lease == seconds
        for body in ({}, {"lease": "soon"}, {"lease": 1, "x": 1}, None):
            wrong(api.post(f"{experiment}/lease", json=body), 422, "invalid_input")
        api.post(f"{experiment}/stop")
        wrong(api.post(f"{experiment}/lease", json={"lease": 60}), 422, "invalid_input")
        changes = [each.data["lease"] for each in beside.events() if each.kind == "changed"]
        assert changes == [60, 0.5, 7200, None]


def test_options_are_added_and_retired(api: httpx.Client, served: Served) -> None:
    body: dict[str, Any] = {"bounds": [0, 1], "policy_options": {"floors": {"old": 0.2}}}
    path = create(api, "changing", options=["old", "new/er", "x"], **body)
    before = api.post(f"{path}/ask", json={"count": 4}).json()["assignments"]
    for _ in range(2):  # repeated after an answer that got lost
        retired = api.post(f"{path}/retire", json={"option": "new/er", "reason": "refunds"})
        assert (retired.status_code, retired.json()["state"]) == (200, "running")
        assert api.post(f"{path}/add", json={"option": "video"}).status_code == 200
    after = api.post(f"{path}/ask", json={"count": 60}).json()["assignments"]
    assert {each["label"] for each in after} == {"old", "x", "video"}
    told = api.post(f"{path}/tell", json=outcomes({each["id"]: 1 for each in before}))
    assert told.json()["recorded"] == 4
    for verb, body in (
        ("retire", {"option": "new/er", "reason": "slow"}),
        ("retire", {"option": "nobody", "reason": "slow"}),
        ("retire", {"option": "x", "reason": ""}),
        ("retire", {"option": "x"}),
        ("add", {"option": "video", "features": [1, 2]}),
        ("add", {"option": "other", "features": [1]}),
        ("add", {"option": "other", "features": ["1"]}),
        ("add", {"option": ""}),
    ):
        wrong(api.post(f"{path}/{verb}", json=body), 422, "invalid_input")
    kinds = [each["kind"] for each in api.get(f"{path}/events").json()["events"]]
    assert [kind for kind in kinds if kind in {"added", "retired"}] == ["retired", "added"]
    with library(served, path) as beside:
        assert beside.problem.source_labels == ("old", "new/er", "x", "video")
        assert beside.verify().sound
    blocks = create(api, "fixed", options=["old", "new", "x"], policy="sp-bai")
    answer = api.post(f"{blocks}/retire", json={"option": "new", "reason": "refunds"})
    error = wrong(answer, 422, "invalid_input")
    assert error["detail"].endswith("goes on with the options that it began with.")


def test_true_and_false_are_rewards(api: httpx.Client, served: Served, experiment: str) -> None:
    api.post(f"{experiment}/ask", json={"count": 2})
    api.post(f"{experiment}/tell", json=outcomes({0: True, 1: False}))
    with library(served, experiment) as beside:
        assert beside.outcomes()["reward"].tolist() == [1.0, 0.0]


def test_names_alone_begin_an_experiment(api: httpx.Client, served: Served) -> None:
    named = create(api, "named", options=["old", "new"], lease="1d", noise=1)
    with library(served, named) as beside:
        assert beside.problem == Problem(["old", "new"])
        assert beside.lease == 86400


def test_nobody_learns_the_seed(api: httpx.Client, served: Served) -> None:
    """Neither one that was given nor one that was drawn: whoever knows it foresees the draws."""
    seed = 918273645546372819
    for name, given in (("sown", {"seed": seed}), ("drawn", {})):
        path = create(api, name, **DRINKS, **given)
        with library(served, path) as beside:
            known = str(beside.seed)
            assert (beside.seed == seed) == bool(given)
        assert len(known) > 9
        api.post(f"{path}/ask", json={"count": 3})
        parts = ("", "/recommendation", "/health", "/events", "/export")
        addresses = [f"/api/v1{path}{part}" for part in parts]
        addresses += [path, f"{path}/report", "/"]
        texts = [get(f"{served.base}{address}").text for address in addresses]
        assert not any(known in text for text in texts)
        (created, *_) = api.get(f"{path}/events").json()["events"]
        assert "seed" not in created["data"]


def test_asking_again_under_a_key_gives_the_same_and_another_body_is_a_conflict(
    api: httpx.Client, experiment: str
) -> None:
    key = {"Idempotency-Key": "worker-7/1"}
    first = api.post(f"{experiment}/ask", json={"count": 3}, headers=key).json()
    api.post(f"{experiment}/ask", json={"count": 2})
    assert api.post(f"{experiment}/ask", json={"count": 3}, headers=key).json() == first
    again = api.post(f"{experiment}/ask", json={"count": 4}, headers=key)
    error = wrong(again, 409, "conflicting_request")
    assert (error["field"], error["value"]) == ("Idempotency-Key", "worker-7/1")
    assert api.get(experiment).json()["pulls"] == 5
    for bad in ("x" * 201, ""):
        refused = api.post(f"{experiment}/ask", json={}, headers={"Idempotency-Key": bad})
        wrong(refused, 422, "invalid_input")


def test_a_key_is_its_caller_s_own(api: httpx.Client, served: Served, experiment: str) -> None:
    """Two programs that count their requests from 1 are not given each other's assignments."""
    key, given = {"Idempotency-Key": "1" * 200}, []
    with served.client(Role.TELL) as other:
        for caller in (api, other, api, other):
            answer = caller.post(f"{experiment}/ask", json={"count": 3}, headers=key).json()
            given.append([each["id"] for each in answer["assignments"]])
        assert given == [[0, 1, 2], [3, 4, 5], [0, 1, 2], [3, 4, 5]]
        # What one of them asked for says nothing of what the other may.
        again = other.post(f"{experiment}/ask", json={"count": 4}, headers=key)
        assert "token" not in json.dumps(wrong(again, 409, "conflicting_request"))
    with library(served, experiment) as opened:
        assert opened.verify().sound


def test_a_name_in_either_spelling_is_one_experiment(api: httpx.Client, served: Served) -> None:
    composed, apart = "th\u00e9", "the\u0301"
    create(api, apart)
    for name in (composed, apart):
        wrong(api.post("/experiments", json={"name": name, **ARMS}), 409, "experiment_exists")
        path = f"/experiments/{quote(name, safe='')}"
        assert api.post(f"{path}/ask", json={"count": 1}).status_code == 200
        assert get(f"{served.base}{path}").status_code == 200
    assert api.get(path).json()["pulls"] == 2
    names = [each["name"] for each in api.get("/experiments").json()["experiments"]]
    assert composed in names
    assert apart not in names


def test_outcomes_are_told_once_all_or_none(api: httpx.Client, experiment: str) -> None:
    def tell(rewards: dict[int, float]) -> httpx.Response:
        return api.post(f"{experiment}/tell", json=outcomes(rewards))

    api.post(f"{experiment}/ask", json={"count": 4})
    assert tell({0: 1, 1: 0}).json() == receipt(recorded=2)
    assert tell({0: 1, 2: 0}).json() == receipt(recorded=1, repeated=1)
    wrong(tell({3: 1, 0: 0}), 409, "conflicting_outcome")
    for unknown in (4, 10**18):
        wrong(tell({3: 1, unknown: 0}), 404, "unknown_assignment")
    wrong(api.post(f"{experiment}/fail", json={"ids": [5]}), 404, "unknown_assignment")
    wrong(tell({3: 1.5}), 422, "invalid_input")
    assert api.get(experiment).json()["answered"] == 3
    assert tell({}).json() == receipt()
    wrong(api.post(f"{experiment}/fail", json={"ids": [0]}), 409, "conflicting_outcome")
    for _ in range(2):
        assert api.post(f"{experiment}/fail", json={"ids": [3]}).json()["lost"] == 1
    assert tell({3: 1}).json() == receipt(recorded=1, late=1)


def test_polling_with_an_etag_costs_nothing_until_something_changes(
    api: httpx.Client, experiment: str
) -> None:
    tag = api.get(experiment).headers["etag"]
    for given in (tag, f'"else", {tag}', "*", tag.removeprefix("W/")):
        same = api.get(experiment, headers={"If-None-Match": given})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    assert api.get(experiment, headers={"If-None-Match": '"else"'}).status_code == 200
    api.post(f"{experiment}/ask", json={})
    changed = api.get(experiment, headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag


def test_the_log_is_read_in_parts(api: httpx.Client, experiment: str) -> None:
    for _ in range(3):
        api.post(f"{experiment}/pause")
        api.post(f"{experiment}/resume")
    whole = api.get(f"{experiment}/events").json()["events"]
    read: list[dict[str, Any]] = []
    for size in (3, 3, 2, 0):
        query = {"after": len(read), "limit": 3}
        part = api.get(f"{experiment}/events", params=query).json()
        read += part["events"]
        assert (len(part["events"]), part["next"]) == (size, len(read))
    assert read == whole
    for query in ({"limit": 0}, {"limit": 1001}, {"after": -1}, {"after": 2**62}):
        wrong(api.get(f"{experiment}/events", params=query), 422, "invalid_input")


# --- rounds of several options, and forecasts -----------------------------------------------------


def test_rounds_are_given_again_whatever_their_size_is_by_then(
    api: httpx.Client, served: Served
) -> None:
    """An option that drops out leaves the rounds; requests from before keep theirs."""
    taste = create(api, "taste", **BLOCKS)
    chance = {"tea": 55, "coffee": 80, "water": 5}  # coffee and tea are close, water is not
    sent: dict[str, list[dict[str, Any]]] = {}
    while api.get(taste).json()["state"] == "running":
        key = str(len(sent))
        asked = api.post(f"{taste}/ask", json={"count": 5}, headers={"Idempotency-Key": key})
        sent[key] = given = asked.json()["assignments"]
        rounds = [each["round"] for each in given]
        assert rounds == sorted(rounds)
        assert len(set(rounds)) == 5
        rewards = {
            each["id"]: float(each["round"] * 37 % 100 < chance[each["label"]]) for each in given
        }
        assert api.post(f"{taste}/tell", json=outcomes(rewards)).status_code == 200
    assert {len(given) for given in sent.values()} == {10, 15}
    for key, given in sent.items():
        header = {"Idempotency-Key": key}
        again = api.post(f"{taste}/ask", json={"count": 5}, headers=header).json()
        assert again["assignments"] == given
        other = api.post(f"{taste}/ask", json={"count": 6}, headers=header)
        wrong(other, 409, "conflicting_request")
    found, status = (api.get(f"{taste}{part}").json() for part in ("/recommendation", ""))
    with library(served, taste) as beside:
        rounds_made = beside.recommendation().rounds
        assert (found["label"], found["rounds"]) == ("coffee", rounds_made)
        assert status["rounds"] == rounds_made
        assert beside.verify().sound


def test_a_request_gets_no_more_assignments_for_asking_in_rounds(api: httpx.Client) -> None:
    many = create(api, "many", **BLOCKS)
    refused = api.post(f"{many}/ask", json={"count": Limits().batch // 3 + 1})
    assert wrong(refused, 422, "invalid_input")["field"] == "count"
    assert api.get(many).json()["pulls"] == 0
    refused = api.post("/experiments", json=BLOCKS | {"name": "x", "forecaster": "default"})
    assert wrong(refused, 422, "invalid_input")["field"] == "forecasts"


def exported(api: httpx.Client, path: str) -> list[dict[str, str]]:
    return list(csv.DictReader(api.get(f"{path}/export").text.splitlines()))


def test_covariates_come_with_the_request_and_are_exported(api: httpx.Client) -> None:
    people = create(api, "people", **DRINKS, forecaster="default")
    known = [{"age": 31, "country": "CH", "member": True}, {"age": None}]
    body, key = {"count": 2, "covariates": known}, {"Idempotency-Key": "a"}
    given, again = (
        api.post(f"{people}/ask", json=body, headers=key).json()["assignments"] for _ in range(2)
    )
    assert [each["id"] for each in given] == [0, 1]
    assert again == given
    rows = exported(api, people)
    assert [json.loads(row["covariates"]) for row in rows] == known
    assert all(0 <= float(row["forecast"]) <= 1 for row in rows)


def test_forecasts_of_ones_own_come_with_the_request(api: httpx.Client) -> None:
    own = create(api, "own", **DRINKS, forecaster="own", policy="bernstein")
    sent = api.post(f"{own}/ask", json={"count": 2, "forecasts": [0.25, 7]})
    assert sent.status_code == 200
    assert [float(row["forecast"]) for row in exported(api, own)] == [0.25, 1.0]
    wrong(api.post(f"{own}/ask", json={"count": 1}), 422, "invalid_input")


def test_units_get_the_same_assignment_again(api: httpx.Client, experiment: str) -> None:
    ask, known = f"{experiment}/ask", {"age": 31}
    first = api.post(ask, json={"unit": "visitor-81", "covariates": [known]}).json()
    [visitor] = first["assignments"]
    assert (visitor["unit"], visitor["decision_point"], visitor["covariates"]) == (
        "visitor-81",
        None,
        known,
    )
    body = {"unit": [7, "visitor-81", "8"]}
    several = api.post(ask, json=body).json()["assignments"]
    assert [each["id"] for each in several] == [1, 0, 2]
    assert several[1] == visitor
    at = {"unit": 7, "decision_point": "9:00"}
    [person] = api.post(ask, json=at).json()["assignments"]
    assert (person["id"], person["unit"]) == (3, "7")
    told = [
        {"unit": "visitor-81", "reward": True},
        {"id": 1, "reward": 0},
        {**at, "reward": 1},
    ]
    assert api.post(f"{experiment}/tell", json={"outcomes": told}).json()["recorded"] == 3
    assert api.post(f"{experiment}/tell", json={"outcomes": told}).json()["repeated"] == 3
    rows = exported(api, experiment)
    assert [(row["unit"], row["decision_point"]) for row in rows] == [
        ("visitor-81", ""),
        ("7", ""),
        ("8", ""),
        ("7", "9:00"),
    ]
    assert [row["outcome"] for row in rows] == ["1", "0", "", "1"]
    assert api.post(f"{experiment}/erase", json={"unit": 7}).json()["pulls"] == 4
    assert [row["unit"] for row in exported(api, experiment)] == ["visitor-81", "", "8", ""]
    for typed in ("cafe\u0301", "caf\u00e9"):  # two forms of é
        [guest] = api.post(ask, json={"unit": typed}).json()["assignments"]
        assert (guest["id"], guest["unit"]) == (4, "caf\u00e9")
    wrong(api.post(f"{experiment}/erase", json={"unit": 7}), 404, "unknown_assignment")


def test_unavailable_decision_points_are_recorded(api: httpx.Client, experiment: str) -> None:
    at = {"unit": ["ann", "zoe"], "decision_point": 1, "available": False}
    for _ in range(2):
        assert api.post(f"{experiment}/ask", json=at).json()["assignments"] == []
    refused = api.post(f"{experiment}/ask", json={"unit": "ann", "decision_point": 1})
    assert wrong(refused, 409, "conflicting_request")["field"] == "available"
    table = api.get(f"{experiment}/export", params={"layout": "mrt"}).text
    rows = list(csv.DictReader(table.splitlines()))
    assert [(row["person"], row["available"], row["probability"]) for row in rows] == [
        ("ann", "0", ""),
        ("zoe", "0", ""),
    ]


def test_units_that_cannot_be_are_refused(api: httpx.Client, experiment: str) -> None:
    ask, tell = f"{experiment}/ask", f"{experiment}/tell"
    for body, field in (
        ({"unit": 1.5}, "unit"),
        ({"unit": ["a", True]}, "unit"),
        ({"unit": ["a", "a"]}, "unit"),
        ({"unit": []}, "unit"),
        ({"unit": "a", "count": 2}, "count"),
        ({"decision_point": 1}, "unit"),
        ({"unit": "x" * 201}, "unit"),
    ):
        assert wrong(api.post(ask, json=body), 422, "invalid_input")["field"] == field
    key = {"Idempotency-Key": "a"}
    assert (
        "the same assignment again"
        in wrong(api.post(ask, json={"unit": "a"}, headers=key), 422, "invalid_input")["remedy"]
    )
    for outcome, code in (
        ({"unit": "a", "reward": 1}, 404),
        ({"reward": 1}, 422),
        ({"id": 0, "unit": "a", "reward": 1}, 422),
    ):
        kind = "unknown_assignment" if code == 404 else "invalid_input"
        wrong(api.post(tell, json={"outcomes": [outcome]}), code, kind)
    assert api.get(experiment).json()["pulls"] == 0


def test_what_no_forecaster_can_use_is_refused(api: httpx.Client, experiment: str) -> None:
    for body in (
        {"forecasts": [0.5]},
        {"covariates": [31]},
        {"forecasts": ["0.5"]},
    ):
        wrong(api.post(f"{experiment}/ask", json=body), 422, "invalid_input")
    assert api.get(experiment).json()["pulls"] == 0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1e999", "`covariates['age']` must be a finite number; got inf."),
        ('"' + "x" * 20_000 + '"', "A row of `covariates` is longer than 10,000 characters."),
    ],
)
def test_a_refused_covariate_is_named_with_its_fault(
    api: httpx.Client, value: str, message: str
) -> None:
    path = create(api, message[:60], **DRINKS, forecaster="default")
    body = f'{{"covariates": [{{"age": {value}}}]}}'
    error = wrong(api.post(f"{path}/ask", content=body, headers=JSON), 422, "invalid_input")
    assert message in error["detail"]
