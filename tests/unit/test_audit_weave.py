"""Counters are woven into source without changing what it does, and they tell exposed from served."""

from __future__ import annotations

import builtins
import textwrap
from typing import Any

import pytest

from staleloc.sim.audit.changes import Dropped, changes_of
from staleloc.sim.audit.find import read_program
from staleloc.sim.audit.notes import NAME, Notes, install
from staleloc.sim.audit.sites import Map, map_of
from staleloc.sim.audit.sources import Source
from staleloc.sim.audit.weave import Weaver, hooks_of

POOL = """
from __future__ import annotations

class Pool:
    \"\"\"A pool with a cached translation.\"\"\"

    def __init__(self, mapping):
        self.full_to_swa_index_mapping = mapping
        self.cached = None

    def lookup(self, locs):
        if self.cached is None:
            self.cached = self.gather(locs)
        return self.cached

    def gather(self, locs):
        return [self.full_to_swa_index_mapping[loc] for loc in locs]

    def invalidate(self):
        self.cached = None

    def guarded(self, loc, slot):
        self.full_to_swa_index_mapping[loc] = slot
        self.invalidate()

    def unguarded(self, loc, slot):
        self.full_to_swa_index_mapping[loc] = slot
        return slot
"""


@pytest.fixture
def notes():
    """Counters, taken away again."""
    yield install()
    delattr(builtins, NAME)


def woven() -> tuple[Map, Any]:
    """What is found in the pool, and its woven class."""
    found = map_of(read_program([Source("pool", "pool.py", POOL)]))
    weaver = Weaver({"pool": hooks_of(found, changes_of(found))["pool.py"]})
    text = weaver("pool", POOL)
    assert weaver("other", POOL) == POOL
    assert weaver.woven == {"pool": sum(map(len, hooks_of(found, changes_of(found)).values()))}
    names: dict[str, Any] = {}
    exec(compile(text, "pool.py", "exec"), names)
    return found, names["Pool"]


def number(found: Map, function: str) -> int:
    return next(it for it, site in enumerate(found.sites) if site.changes and site.spot.function == function)


def test_woven_source_does_what_it_did(notes: Notes):
    """The same answers and the same documentation, counted or not."""
    _, pool_class = woven()
    pool = pool_class([0, 10, 20])
    assert pool_class.__doc__ == "A pool with a cached translation."
    assert pool.lookup([1, 2]) == [10, 20]
    assert pool.unguarded(1, 11) == 11
    assert pool.lookup([1]) == [10, 20]
    pool.guarded(1, 12)
    assert pool.lookup([1]) == [12]
    assert not notes.reached, "nothing is counted while no call of the target is under way"


def test_an_answer_that_outlives_a_site_is_served(notes: Notes):
    """Kept, the mapping changed, asked for again: exposed and served, and the call is known."""
    found, pool_class = woven()
    pool = pool_class([0, 10])
    notes.call = "lookup"
    pool.lookup([1])
    notes.call = "compact"
    pool.unguarded(1, 11)
    notes.call = "lookup"
    pool.lookup([1])
    key = (number(found, "Pool.unguarded"), 0)
    assert notes.reached == {(key[0], "compact"): 1}
    assert notes.alive[key[0]] == 1
    assert (notes.exposed[key], notes.served[key], notes.calls[key]) == (1, 1, {"compact"})
    assert not notes.needed


def test_an_answer_that_is_dropped_is_exposed_but_not_served(notes: Notes):
    """The invalidation is what stood between, and it is known by its number."""
    found, pool_class = woven()
    pool = pool_class([0, 10])
    notes.call = "x"
    pool.lookup([1])
    pool.guarded(1, 11)
    pool.lookup([1])
    key = (number(found, "Pool.guarded"), 0)
    assert (notes.exposed[key], notes.served[key]) == (1, 0)
    assert notes.needed == {0: 1}


def test_an_answer_that_nobody_asks_for_again_is_not_exposed(notes: Notes):
    """Nor is one that was made anew, or one of other objects."""
    found, pool_class = woven()
    pool = pool_class([0, 10])
    notes.call = "x"
    pool.unguarded(1, 11)
    pool.lookup([1])
    pool.unguarded(1, 12)
    notes.restart()
    pool.lookup([1])
    assert notes.reached[number(found, "Pool.unguarded"), "x"] == 2
    assert not notes.exposed


def test_what_a_kernel_does_is_left_alone():
    """Its source is compiled for a GPU; a call of ours has no place in it."""
    source = textwrap.dedent("""
    import triton
    import triton.language as tl
    @triton.jit
    def kernel(full_to_swa_index_mapping):
        tl.store(full_to_swa_index_mapping, 0)
    """)
    found = map_of(read_program([Source("k", "k.py", source)]))
    assert [it.kind for it in found.sites] == ["write"]
    assert NAME not in Weaver({"k": hooks_of(found, ())["k.py"]})("k", source)


def test_a_guard_is_taken_away_and_nothing_else():
    """The statement does nothing any more; source without it comes back as it was."""
    found = map_of(read_program([Source("pool", "pool.py", POOL)]))
    (change,) = changes_of(found)
    assert change.name == "Pool.guarded without self.invalidate()"
    assert change.sites == (number(found, "Pool.guarded"),)
    dropped = Dropped("pool", change.spot.line, change.spot.column)
    assert dropped("other", POOL) == POOL
    assert not dropped.made
    text = dropped("pool", POOL)
    assert dropped.made
    names: dict[str, Any] = {}
    exec(text, names)
    pool = names["Pool"]([0, 10])
    assert pool.lookup([1]) == [10]
    pool.guarded(1, 11)
    assert pool.lookup([1]) == [10]


@pytest.mark.parametrize("statement", ["x = f()", "return f()", "if f(): pass"])
def test_a_statement_that_something_depends_on_stays(statement):
    """What gives a name its value, or holds other statements, is not taken away."""
    source = f"def g():\n    {statement}\n"
    dropped = Dropped("m", 2, 4)
    assert dropped("m", source) == source
    assert not dropped.made
