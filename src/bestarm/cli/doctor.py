"""`bestarm doctor`: is a database safe to keep a trial in?"""

from __future__ import annotations

from bestarm.cli.experiment_look import print_checks

__all__ = ["run_doctor"]


def run_doctor(url: str, *, as_json: bool) -> None:
    """Print what was found; exit code 1 on an alarm."""
    from bestarm.live.store.doctor import diagnose  # noqa: PLC0415

    print_checks({}, diagnose(url), as_json=as_json)
