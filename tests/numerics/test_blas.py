"""Linear algebra on one thread, whoever asks for it and whoever else does meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from bestarm import simulate
from bestarm.design import solver
from bestarm.environments import small_gap
from bestarm.numerics.blas import one_thread
from bestarm.policies import SBE
from bestarm.simulation import engine

THREADS = 3


def threads() -> set[int]:
    """How many threads the libraries of NumPy and SciPy use, each; others need not obey."""
    found = [each for each in threadpool_info() if each["user_api"] == "blas"]
    return {each["num_threads"] for each in found if re.search("numpy|scipy", each["filepath"])}


@pytest.fixture(autouse=True)
def several() -> Iterator[None]:
    """As on a machine with several processors."""
    with threadpool_limits(limits=THREADS, user_api="blas"):
        yield


def test_it_is_lifted_at_the_end_also_of_what_failed() -> None:
    with one_thread(), one_thread():
        assert threads() == {1}
    assert threads() == {THREADS}
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert threads() == {THREADS}


@pytest.mark.parametrize("first_out", [0, 1])
def test_holders_may_overlap_in_any_order(first_out: int) -> None:
    holders = one_thread(), one_thread()
    for holder in holders:
        holder.__enter__()
        assert threads() == {1}
    holders[first_out].__exit__(None, None, None)
    assert threads() == {1}
    holders[1 - first_out].__exit__(None, None, None)
    assert threads() == {THREADS}


def test_it_holds_for_all_threads_that_come_and_go() -> None:
    together = Barrier(4)

    def come_and_go(number: int) -> set[int]:
        seen = set[int]()
        for _ in range(50):
            together.wait()
            with one_thread():
                seen |= threads() if number else set()
        return seen

    with ThreadPoolExecutor(4) as pool:
        assert set().union(*pool.map(come_and_go, range(4))) == {1}
    assert threads() == {THREADS}


def test_all_that_need_it_share_it() -> None:
    for user in (engine, solver):
        assert vars(user)["one_thread"] is one_thread


def test_designs_in_threads_leave_the_others_limit_alone() -> None:
    """A thread that simulates holds it while others solve designs."""
    together, seen = Barrier(2), list[set[int]]()
    features = np.random.default_rng(0).standard_normal((30, 4))

    def design() -> None:
        together.wait()
        solver.minimise(features, solver.PairwiseContrasts(features), 1e-3)
        together.wait()

    class Watching(SBE):
        def recommend(self):  # type: ignore[no-untyped-def]
            together.wait()  # the other solves its design now
            together.wait()
            seen.append(threads())
            return super().recommend()

    with ThreadPoolExecutor(1) as pool:
        solved = pool.submit(design)
        simulate(Watching, small_gap(), runs=1)
        solved.result()
    assert seen == [{1}]
    assert threads() == {THREADS}
