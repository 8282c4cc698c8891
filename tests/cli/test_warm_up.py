"""`bestarm warm-up` compiles what an experiment needs, and commands say what takes long."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from commands import data, refused, run

from bestarm import cli, compiling
from bestarm.forecasting import mixture as forecasting

NEEDED: tuple[Any, ...] = (forecasting.predict, forecasting.update, forecasting.run_draws)


def test_what_an_experiment_needs_is_compiled() -> None:
    found = data("warm-up")
    assert set(found) == {"compiled", "seconds", "cache"}
    assert found["cache"] == forecasting.predict.stats.cache_path  # type: ignore[attr-defined]
    for function in NEEDED:
        assert function.signatures, function
    assert run("warm-up")[0].startswith("Compiled 0 functions in ")


def test_without_a_cache_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = SimpleNamespace(stats=SimpleNamespace(cache_path=None))
    monkeypatch.setattr(forecasting, "predict", nowhere)
    assert "Set NUMBA_CACHE_DIR" in refused("warm-up")


def test_commands_say_on_stderr_that_something_is_compiled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = logging.getLogger("bestarm")
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(log, "level", logging.NOTSET)
    monkeypatch.setattr("sys.argv", ["bestarm", "--version"])
    with pytest.raises(SystemExit):
        cli.main()
    compiling._log.info("Compiling … (first use on this machine)")
    out, err = capsys.readouterr()
    assert err == "bestarm: Compiling … (first use on this machine)\n"
    assert "Compiling" not in out
