"""What all data have in common: nothing is downloaded, and they can be sent to other processes."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bestarm.datasets import JudgementsData, RatingsData, alpaca_eval, jester
from bestarm.environments import Environment
from bestarm.errors import InvalidInputError

both = pytest.mark.parametrize("read", [alpaca_eval, jester])
Read = Callable[..., JudgementsData | RatingsData]


@both
def test_nothing_is_downloaded(read: Read, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(socket, "socket")
    read()
    with pytest.raises(InvalidInputError):
        read(tmp_path / "absent")


@both
def test_data_survive_pickling(read: Read) -> None:
    data = pickle.loads(pickle.dumps(read()))
    assert type(data) is type(read())
    environment = data.environment()
    assert isinstance(environment, Environment)
    np.testing.assert_array_equal(environment.means, read().environment().means)
