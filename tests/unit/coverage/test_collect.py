"""What the collectors note, each on the versions of Python that have it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from staleloc.sim.coverage.collect import Collector, Monitor, Tracer
from staleloc.sim.coverage.statements import functions_of

SOURCE = """\
def outer(x):
    try:
        if x:
            return [
                it
                for it in range(x)
            ]
        raise ValueError
    except ValueError:
        pass
    finally:
        done = short(x)
    return done

def short(x): return x

def never():
    return 1
"""


@pytest.fixture(params=[Tracer, pytest.param(Monitor, marks=pytest.mark.skipif(
    not hasattr(sys, "monitoring"), reason="Python has sys.monitoring from 3.12 on"))])  # fmt: skip
def collector(request: pytest.FixtureRequest) -> Iterator[Collector]:
    """A running collector of ``mine.py``; coverage tools of the tests themselves are put back afterwards."""
    before = sys.gettrace()
    it: Collector = request.param(["mine.py"])
    it.start()
    yield it
    it.stop()
    sys.settrace(before)


def load(name: str) -> dict[str, Any]:
    """Load the source under a file name."""
    names: dict[str, Any] = {}
    exec(compile(SOURCE, name, "exec"), names)
    return names


def noted(collector: Collector) -> set[int]:
    """Statements of functions among the new lines."""
    lines = {line for _, numbers in collector.fresh() for line in numbers}
    statements = [it for function in functions_of(SOURCE, "mine.py") for it in function.statements]
    return {it.first for it in statements if lines & set(range(it.first, it.last + 1))}


def test_new_lines_are_told_once(collector: Collector) -> None:
    """Lines that run again are not told again, lines that never run are not told, and no other file is."""
    names = load("mine.py")
    noted(collector)
    assert names["outer"](2) == [0, 1]
    assert noted(collector) == {2, 3, 4, 12, 15}
    assert names["outer"](2) == [0, 1]
    assert not noted(collector)
    assert names["outer"](0) == 0
    assert noted(collector) == {8, 9, 10, 13}
    load("other.py")["never"]()
    assert not collector.fresh()


def test_other_threads_count(collector: Collector) -> None:
    """An engine may run its cache code in a thread of its own."""
    names = load("mine.py")
    noted(collector)
    thread = threading.Thread(target=names["never"])
    thread.start()
    thread.join()
    assert noted(collector) == {18}
