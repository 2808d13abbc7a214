"""Counters are woven into source without changing what it does, and they tell exposed from served."""

from __future__ import annotations

import builtins
import textwrap
from typing import Any

import pytest

from staleloc.sim.audit.guards import changes_of
from staleloc.sim.audit.play.instrument import NAME, Counters, Instrumenter, hooks_of, install
from staleloc.sim.audit.source.program import Source
from staleloc.sim.audit.source.sites import Map, map_of, read_program

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
    reading = read_program([Source("pool", "pool.py", POOL)])
    found = map_of(reading)
    changes = [it for it in changes_of(reading, found) if it.kind == "invalidation"]
    instrumenter = Instrumenter({"pool": hooks_of(found, changes)["pool.py"]})
    text = instrumenter("pool", POOL)
    assert instrumenter("other", POOL) == POOL
    assert instrumenter.placed == {"pool": sum(map(len, hooks_of(found, changes).values()))}
    names: dict[str, Any] = {}
    exec(compile(text, "pool.py", "exec"), names)
    return found, names["Pool"]


def number(found: Map, function: str) -> int:
    return next(it for it, site in enumerate(found.sites) if site.changes and site.spot.function == function)


def test_woven_source_does_what_it_did(notes: Counters):
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


def test_an_answer_that_outlives_a_site_is_served(notes: Counters):
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
    assert (notes.exposed[key], notes.served[key], notes.late[key]) == (1, 1, {(-1, -1)})
    assert not notes.needed


def test_an_answer_that_is_dropped_is_exposed_but_not_served(notes: Counters):
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


def test_an_answer_that_nobody_asks_for_again_is_not_exposed(notes: Counters):
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
    assert NAME not in Instrumenter({"k": hooks_of(found, ())["k.py"]})("k", source)


def test_coming_to_a_guard_is_counted_before_its_statement_runs(notes):
    """Also where the statement ends the function, or lies in a branch of another."""
    source = textwrap.dedent("""
    def keep(full_to_swa_index_mapping, locs):
        if not locs:
            return []
        if len(locs) > 3:
            print()
        elif len(locs) > 2:
            return [full_to_swa_index_mapping[loc] for loc in locs[:2]]
        return [it for it in (full_to_swa_index_mapping[loc] for loc in locs) if it > 0]
    """)
    reading = read_program([Source("m", "m.py", source)])
    found = map_of(reading)
    changes = changes_of(reading, found)
    names: dict[str, Any] = {}
    exec(Instrumenter({"m": hooks_of(found, changes)["m.py"]})("m", source), names)

    def come(locs: list[int]) -> set[str]:
        notes.restart()
        names["keep"]([0, 1, 0, 5, 6], locs)
        return {f"{changes[number].kind} {changes[number].spot.line}" for number in notes.passed}

    assert come([]) == {"bound 3"}
    assert come([1, 2, 3]) == {"bound 3", "bound 7", "bound 8"}
    assert come([1]) == {"bound 3", "bound 7", "mask 9", "sentinel 9"}
