"""The builtin engine step by step: who owns which slots after each of the scheduler's calls."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from staleloc.models.config import Config
from staleloc.sim.targets.base import FreeSlots, TargetError
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.engine import NodeView

PROMPT = [1, 2, 3, 4, 5, 6, 7, 8]


def make(page_size: int = 2, full: int = 8, swa: int = 8, window: int = 2) -> BuiltinEngine:
    """An engine without a host tier; sizes in pages."""
    engine = BuiltinEngine()
    engine.build(
        Config(
            level="engine",
            policy="memo",
            page_size=page_size,
            full_size=full * page_size,
            swa_size=swa * page_size,
            window=window,
        )
    )
    return engine


def forward(engine: BuiltinEngine, request: int, start: int, stop: int) -> None:
    """Write the rows of some tokens; the tag says request, position and layer."""
    for layer in range(2):
        tags = [100 * request + 10 * at + layer for at in range(start, stop)]
        engine.write([(request, start, stop)], layer, tags)


def compute(engine: BuiltinEngine, request: int, tokens: Sequence[int]) -> int:
    """Admit a request and compute its whole prompt in one chunk; how much was cached."""
    admission = engine.admit(request, list(tokens))
    assert admission is not None
    assert engine.prefill(request, len(tokens) - admission.cached) is not None
    forward(engine, request, admission.cached, len(tokens))
    return admission.cached


def serve(engine: BuiltinEngine, request: int, tokens: Sequence[int]) -> int:
    """The same, checkpointed."""
    cached = compute(engine, request, tokens)
    engine.checkpoint(request)
    return cached


def free_pages(engine: BuiltinEngine) -> tuple[int, int]:
    free = engine.raw_free()
    return len(free.full), len(free.swa)


def nodes(engine: BuiltinEngine) -> list[NodeView]:
    """The tree, roughly from the first token on."""
    return sorted(engine.raw_tree(), key=lambda node: node.node)


def node_of(engine: BuiltinEngine, tokens: Sequence[int]) -> NodeView:
    """The node with exactly these tokens of its own."""
    (node,) = [node for node in engine.raw_tree() if node.tokens == tuple(tokens)]
    return node


def test_one_object_serves_both_levels() -> None:
    """What is built says how it can be driven, and only the hybrid pool has an engine."""
    engine = BuiltinEngine()
    engine.build(Config(policy="side_channel"))
    assert engine.alloc(1) == [1]
    for shape in ({"policy": "side_channel"}, {"policy": "first_layer", "pool": "dsv4"}):
        with pytest.raises(TargetError, match="builtin has no engine on the"):
            engine.build(Config(level="engine", **shape))


def test_the_last_token_is_always_computed() -> None:
    """A prompt that is cached completely is matched up to its last page."""
    engine = make()
    serve(engine, 0, PROMPT)
    admission = engine.admit(1, PROMPT)
    assert admission is not None
    assert (admission.cached, admission.loaded) == (6, 0)
    assert engine.raw_requests()[1].row == engine.raw_requests()[0].row[:6]


def test_a_checkpoint_keeps_the_last_partial_page_out_of_the_tree() -> None:
    """Whole pages belong to the tree from then on, and the request goes on in its own page."""
    engine = make()
    serve(engine, 0, PROMPT[:5])
    view = engine.raw_requests()[0]
    assert view.shared == 4
    assert node_of(engine, PROMPT[:4]).full == view.row[:4]
    assert engine.decode([0], [6]) == [view.row[4] + 1]


def test_a_refused_prefill_holds_nothing() -> None:
    """If everything evictable would not be enough, no slot changes hands for the request."""
    engine = make(full=4, swa=4)
    serve(engine, 0, PROMPT)
    assert engine.admit(1, PROMPT[::-1]) is not None
    assert engine.prefill(1, 8) is None
    assert engine.raw_requests()[1].row == ()
    assert free_pages(engine) == (0, 0)


def test_a_decode_step_is_for_all_requests_or_none() -> None:
    """With one page left for two requests, neither gets a token."""
    engine = make(full=5, swa=5)
    serve(engine, 0, PROMPT[:4])
    serve(engine, 1, PROMPT[4:])
    before = engine.raw_requests()
    assert engine.decode([0, 1], [9, 9]) is None
    assert engine.raw_requests() == before
    assert engine.decode([1], [9]) is not None


def test_duplicates_are_freed_and_the_row_names_the_tree() -> None:
    """Of two requests that computed the same prompt at the same time, the second gives its slots up."""
    engine = make()
    compute(engine, 0, PROMPT[:4])
    compute(engine, 1, PROMPT[:4])
    engine.checkpoint(0)
    engine.checkpoint(1)
    first, second = (engine.raw_requests()[request] for request in (0, 1))
    assert second.row == first.row
    assert free_pages(engine) == (6, 6)
    assert node_of(engine, PROMPT[:4]).full_locks == 2


def test_an_evicted_front_becomes_a_tombstone_before_the_leaf() -> None:
    """A new leaf that begins before the evicted boundary is two nodes, and only the second has SWA slots."""
    engine = make()
    compute(engine, 0, PROMPT)
    engine.evict_window(0)
    assert engine.raw_requests()[0].evicted == 6
    engine.checkpoint(0)
    front, leaf = node_of(engine, PROMPT[:6]), node_of(engine, PROMPT[6:])
    assert front.swa is None
    assert leaf.swa is not None
    assert (front.full_locks, front.swa_locks, leaf.full_locks, leaf.swa_locks) == (1, 0, 1, 1)
    assert [engine.raw_mapping()[loc] for loc in front.full or ()] == [0] * 6
    assert free_pages(engine) == (4, 7)


def test_window_eviction_is_page_aligned_and_keeps_a_page() -> None:
    """However small the window, the page that the next insertion ends with keeps its SWA slots."""
    engine = make(page_size=4, window=1)
    compute(engine, 0, PROMPT[:7])
    engine.evict_window(0)
    assert engine.raw_requests()[0].evicted == 0
    compute(engine, 1, PROMPT)
    engine.evict_window(1)
    assert engine.raw_requests()[1].evicted == 4


def test_a_tombstone_takes_swa_slots_and_keeps_its_full_slots() -> None:
    """What another request may be reading stays where it is; the SWA slots of the newcomer move to it."""
    engine = make()
    compute(engine, 0, PROMPT[:4])
    engine.evict_window(0)
    compute(engine, 1, PROMPT[:4])
    engine.checkpoint(0)
    tombstone = node_of(engine, PROMPT[:2])
    assert tombstone.swa is None
    swa = [engine.raw_mapping()[loc] for loc in engine.raw_requests()[1].row[:2]]
    engine.checkpoint(1)
    recovered = node_of(engine, PROMPT[:2])
    assert (recovered.full, recovered.swa) == (tombstone.full, tuple(swa))
    assert [engine.raw_mapping()[loc] for loc in recovered.full or ()] == swa
    assert engine.raw_requests()[1].row == engine.raw_requests()[0].row
    assert free_pages(engine) == (6, 6)


def test_only_what_is_in_the_window_is_recovered() -> None:
    """A tombstone that a request overlaps across its own evicted boundary is split there."""
    engine = make(window=2)
    compute(engine, 0, PROMPT)
    engine.evict_window(0)
    engine.checkpoint(0)
    assert len(nodes(engine)) == 2
    compute(engine, 1, PROMPT[:6])
    engine.evict_window(1)
    engine.checkpoint(1)
    assert node_of(engine, PROMPT[:4]).swa is None
    assert node_of(engine, PROMPT[4:6]).swa is not None


def test_finishing_frees_the_tail_and_keeps_the_pages() -> None:
    """The tree owns the whole pages, unlocked, and nothing else is left."""
    engine = make()
    serve(engine, 0, PROMPT[:5])
    engine.finish(0)
    assert free_pages(engine) == (6, 6)
    assert engine.raw_requests() == {}
    assert {(node.full_locks, node.swa_locks) for node in engine.raw_tree()} == {(0, 0)}


def test_aborting_inserts_nothing() -> None:
    """What was not checkpointed is freed, what was shared stays."""
    engine = make()
    serve(engine, 0, PROMPT[:2])
    compute(engine, 1, PROMPT)
    engine.abort(1)
    assert [node.tokens for node in nodes(engine)] == [(1, 2)]
    assert free_pages(engine) == (7, 7)


def test_the_least_recently_used_leaf_is_evicted() -> None:
    """A match keeps a leaf from going first, a running request keeps it altogether."""
    engine = make()
    for request, tokens in enumerate(([1, 1], [2, 2], [3, 3])):
        serve(engine, request, tokens)
        if request < 2:
            engine.finish(request)
    engine.admit(5, [1, 1, 9])
    engine.abort(5)
    engine.evict(2, 0)
    assert {node.tokens for node in engine.raw_tree()} == {(1, 1), (3, 3)}
    engine.evict(8, 8)
    assert {node.tokens for node in engine.raw_tree()} == {(3, 3)}


def test_swa_eviction_makes_tombstones_of_inner_nodes() -> None:
    """An inner node keeps its full slots; a leaf goes whole, and a tombstone that is left as a leaf goes with it."""
    engine = make()
    for request, tokens in enumerate((PROMPT[:2], PROMPT[:4])):
        serve(engine, request, tokens)
        engine.finish(request)
    engine.evict(0, 2)
    assert node_of(engine, PROMPT[:2]).swa is None
    assert free_pages(engine) == (6, 7)
    engine.evict(0, 2)
    assert nodes(engine) == []
    assert free_pages(engine) == (8, 8)


def test_a_tombstone_ends_no_match() -> None:
    """What is cached without its window is computed again."""
    engine = make()
    serve(engine, 0, PROMPT[:4])
    serve(engine, 1, PROMPT)
    engine.evict_window(1)
    engine.finish(0)
    engine.evict(0, 2)
    assert node_of(engine, PROMPT[:4]).swa is None
    assert compute(engine, 2, PROMPT[:5]) == 0
    assert serve(engine, 3, [*PROMPT, 9]) == 8


def test_a_window_that_moved_on_unlocks_what_it_left() -> None:
    """The tree may take the SWA slots of a shared prefix as soon as no later token attends to them."""
    engine = make()
    serve(engine, 0, PROMPT[:4])
    assert node_of(engine, PROMPT[:4]).swa_locks == 1
    for token in range(4):
        assert engine.decode([0], [token])
        forward(engine, 0, 4 + token, 5 + token)
    engine.evict_window(0)
    node = node_of(engine, PROMPT[:4])
    assert (node.full_locks, node.swa_locks) == (1, 0)
    engine.evict(8, 8)
    assert node_of(engine, PROMPT[:4]).full == engine.raw_requests()[0].row[:4]
    assert node_of(engine, PROMPT[:4]).swa is None


def test_attention_reads_what_was_written() -> None:
    """A request reads its own rows and those of the prefix it shares, in full and in SWA layers."""
    engine = make()
    serve(engine, 0, PROMPT[:4])
    compute(engine, 1, [*PROMPT[:4], 9])
    assert engine.read(1, 0, 5, 0).keys == [0, 10, 20, 30, 140]
    assert engine.read(1, 2, 5, 1).keys == [21, 31, 141]


def test_flushing_empties_everything() -> None:
    """Afterwards nothing is cached, mapped or held."""
    engine = make()
    serve(engine, 0, PROMPT)
    engine.finish(0)
    engine.flush()
    assert engine.raw_tree() == []
    assert free_pages(engine) == (8, 8)
    assert not any(engine.raw_mapping())
    assert serve(engine, 0, PROMPT) == 0


def test_without_a_host_tier_there_are_no_host_slots() -> None:
    """Raw state of the host is empty, and nothing is ever queued."""
    engine = make()
    serve(engine, 0, PROMPT)
    engine.finish(0)
    engine.evict(8, 8)
    assert engine.raw_host_free() == FreeSlots([], [])
    assert engine.raw_host_contents(0).keys == []
    assert engine.pending() == 0
