"""The recipe of the container image, read; `.ci/docker` builds and probes it where Docker runs."""

from __future__ import annotations

import json
from pathlib import Path

from sqlalchemy import make_url

from bestarm.live.store.database import check_url

ROOT = Path(__file__).parent.parent


def instructions() -> list[tuple[str, str]]:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    found = [line.split(" ", 1) for line in lines if line and not line.startswith("#")]
    return [(name, rest) for name, rest in found]


def every(name: str) -> list[str]:
    return [rest for each, rest in instructions() if each == name]


def test_it_has_one_stage_and_does_not_run_as_root() -> None:
    names = [name for name, _ in instructions()]
    assert names[0] == "FROM"
    assert len(every("FROM")) == 1
    (user,) = every("USER")
    assert user not in {"root", "0"}
    assert any(f"useradd --create-home --uid 10001 {user}" in each for each in every("RUN"))
    assert names.index("USER") < names.index("CMD")


def test_the_database_is_on_the_volume() -> None:
    (variable,) = every("ENV")
    name, _, url = variable.partition("=")
    assert name == "BESTARM_STORE"
    database = make_url(str(check_url(url))).database
    assert Path(str(database)).parent == Path(every("VOLUME")[0])


def test_what_it_copies_is_there_and_is_sent_to_the_daemon() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for each in every("COPY"):
        *sources, _ = each.split()
        for source in sources:
            assert (ROOT / source).exists(), source
            assert f"!{source}" in ignored


def test_what_it_runs_is_a_command_and_a_probe() -> None:
    assert json.loads(every("CMD")[0]) == ["bestarm", "serve", "--host", "0.0.0.0"]
    program, _, code = json.loads(every("HEALTHCHECK")[0].removeprefix("CMD "))
    assert program == "python"
    assert "/healthz" in code
    compile(code, "HEALTHCHECK", "exec")
