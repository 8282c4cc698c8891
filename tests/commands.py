"""Run commands of `bestarm` in this process."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from bestarm.cli.app import app


def invoke(*arguments: str, stdin: str | bytes | None = None) -> tuple[int, str, str]:
    """The exit code, and what was printed to standard output and to standard error."""
    result = CliRunner().invoke(app, list(arguments), input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def run(*arguments: str, code: int = 0, stdin: str | bytes | None = None) -> tuple[str, str]:
    """What was printed by a command that ends with this exit code."""
    found, out, err = invoke(*arguments, stdin=stdin)
    assert found == code, (out, err)
    return out, err


def data(*arguments: str, code: int = 0, stdin: str | bytes | None = None) -> Any:
    """What a command prints as JSON."""
    return json.loads(run(*arguments, "--json", code=code, stdin=stdin)[0])


def refused(*arguments: str, code: int = 2, stdin: str | bytes | None = None) -> str:
    """The one sentence that a command ends with, and nothing else."""
    out, err = run(*arguments, code=code, stdin=stdin)
    assert out == ""
    assert err.startswith("bestarm: ")
    assert err.endswith((".\n", "?\n"))
    assert err.count("\n") == 1
    return err
