"""The builtin's speculative decode: who has which slots before, in, and after a step, and what is in them."""

from __future__ import annotations

from typing import Any

import pytest

from staleloc.models.config import Config
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.builtin.bigrams import bigrams, first, second

LAYERS = ("full", "swa", "swa")


def built(version: str, steps: int, topk: int, nodes: int, **shape: Any) -> Any:
    engine = BuiltinEngine()
    shape = {"page_size": 1, "full_size": 96, "swa_size": 64, "window": 8, "policy": "memo", **shape}
    engine.build(
        Config(
            level="engine", features=("spec",), layers=LAYERS, spec_version=version, spec_steps=steps, spec_topk=topk,
            spec_draft_tokens=nodes, **shape,
        )
    )  # fmt: skip
    return engine


def served(engine: Any, request: int, *tokens: int) -> None:
    """A request whose prompt is computed, written as 1, 2, 3 and so on in the target, 101, 102 in the draft."""
    engine.admit(request, list(tokens))
    engine.prefill(request, len(tokens))
    row = list(engine.raw_requests()[request].row)
    for layer in range(len(LAYERS)):
        engine.write([(request, 0, len(tokens))], layer, list(range(1, len(tokens) + 1)))
    for layer in range(len(LAYERS)):
        engine.write_draft(row, layer, list(range(101, len(tokens) + 101)))
    engine.checkpoint(request)


def drafted(engine: Any, request: int) -> Any:
    """A step up to its verification, in which node i is written as 50 + i."""
    assert engine.prepare_decode([request])
    (branches,) = engine.draft_branches([request])
    for depth, locs in enumerate(zip(*branches.slots, strict=True)):
        for layer in range(len(LAYERS)):
            engine.write_draft(list(locs), layer, [200 + 10 * depth + it for it in range(len(locs))])
    engine.drop_draft([request])
    return branches


def verified(engine: Any, request: int, computed: int, nodes: int, path: list[int]) -> None:
    assert engine.begin_verify([request])
    for layer in range(len(LAYERS)):
        engine.write([(request, computed, computed + nodes)], layer, [50 + it for it in range(nodes)])
    engine.accept([request], [path], [[7] * len(path)])


def lengths(engine: Any, request: int) -> tuple[int, int]:
    view = engine.raw_requests()[request]
    return view.committed, len(view.row)


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("topk", [1, 2])
def test_a_draft_of_v1_leaves_nothing_behind(page_size: int, topk: int) -> None:
    """Free lists, mapping and rows are as before it, and its rows were written to slots nobody else has."""
    engine = built("v1", 3, topk, 4, page_size=page_size)
    served(engine, 0, 1, 2, 3, 4, 5)
    before = engine.raw_free(), engine.raw_mapping(), engine.raw_requests()
    branches = drafted(engine, 0)
    assert (engine.raw_free(), engine.raw_mapping(), engine.raw_requests()) == before
    slots = [loc for branch in branches.slots for loc in branch]
    assert len(set(slots)) == 3 * topk
    assert not set(slots) & set(before[2][0].row)


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("path", [[0], [0, 2], [0, 1, 3]])
def test_v1_keeps_what_is_accepted_and_frees_the_rest(page_size: int, path: list[int]) -> None:
    """Accepted nodes are read in order behind the prompt; what is free and what is owned make up the pool."""
    engine = built("v1", 3, 2, 4, page_size=page_size)
    served(engine, 0, 1, 2, 3, 4, 5)
    drafted(engine, 0)
    verified(engine, 0, 5, 4, path)
    end = 5 + len(path)
    assert lengths(engine, 0) == (end, end)
    for layer in range(len(LAYERS)):
        assert engine.read(0, 5, end, layer).keys == [50 + node for node in path]
    row = engine.raw_requests()[0].row
    assert len(engine.raw_free().full) + len({loc // page_size for loc in row}) == 96 // page_size


@pytest.mark.parametrize(("page_size", "topk", "goal"), [(1, 1, 13), (4, 1, 16), (4, 2, 40)])
def test_v2_grows_a_row_once_and_keeps_it(page_size: int, topk: int, goal: int) -> None:
    """To what is committed and twice a step, in whole pages; a verification takes no slots."""
    engine = built("v2", 3, topk, 4, page_size=page_size)
    served(engine, 0, 1, 2, 3, 4, 5)
    drafted(engine, 0)
    assert lengths(engine, 0) == (5, goal)
    free = engine.raw_free()
    verified(engine, 0, 5, 4, [0, 1] if topk == 1 else [0, 2])
    assert engine.read(0, 5, 7, 1).keys == ([50, 51] if topk == 1 else [50, 52])
    assert lengths(engine, 0) == (5, goal)
    engine.commit([0])
    assert lengths(engine, 0) == (7, goal)
    assert engine.raw_free() == free


@pytest.mark.parametrize("leave", ["finish", "abort"])
@pytest.mark.parametrize("page_size", [1, 4, 64])
def test_the_surplus_goes_with_its_request(leave: str, page_size: int) -> None:
    """At any point of a step; what is inserted is what was committed."""
    engine = built("v2", 3, 1, 4, page_size=page_size, full_size=256, swa_size=256)
    served(engine, 0, 1, 2, 3, 4, 5)
    drafted(engine, 0)
    verified(engine, 0, 5, 4, [0, 1])
    engine.commit([0])
    drafted(engine, 0)
    verified(engine, 0, 7, 4, [0])
    getattr(engine, leave)(0)
    cached = sum(len(node.tokens) for node in engine.raw_tree())
    inserted = 7 if leave == "finish" else 5
    assert cached == inserted // page_size * page_size
    assert len(engine.raw_free().full) == (256 - cached) // page_size
    engine.evict(256, 256)
    assert len(engine.raw_free().swa) == 256 // page_size


def test_the_next_draft_of_v2_begins_behind_what_is_computed() -> None:
    """Also while that is not committed."""
    engine = built("v2", 2, 1, 3)
    served(engine, 0, 1, 2, 3)
    drafted(engine, 0)
    verified(engine, 0, 3, 3, [0, 1])
    branches = drafted(engine, 0)
    assert branches.slots == (engine.raw_requests()[0].row[5:7],)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_each_branch_reads_the_page_that_the_draft_starts_in(version: str) -> None:
    """The first where it is, the others a copy in pages of their own, in the draft's pool alone."""
    engine = built(version, 3, 3, 4, page_size=4)
    served(engine, 0, 1, 2, 3, 4, 5, 6)
    target = engine.raw_contents(0)
    assert engine.prepare_decode([0])
    (branches,) = engine.draft_branches([0])
    for head in branches.copied:
        for layer in range(len(LAYERS)):
            assert engine.read_draft(list(head), layer).keys == [105, 106]
    pages = [{loc // 4 for loc in (*head, *slots)} for head, slots in zip(branches.copied, branches.slots, strict=True)]
    assert not pages[0] & pages[1] | pages[0] & pages[2] | pages[1] & pages[2]
    assert engine.raw_contents(0) == target


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_preparation_evicts_the_window_up_to_what_is_committed(version: str) -> None:
    """Not further, whatever has been accepted since."""
    engine = built(version, 1, 1, 2, window=2)
    served(engine, 0, 1, 2, 3, 4, 5, 6)
    drafted(engine, 0)
    assert engine.raw_requests()[0].evicted == 4
    verified(engine, 0, 6, 2, [0, 1])
    assert engine.prepare_decode([0])
    assert engine.raw_requests()[0].evicted == (6 if version == "v1" else 4)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_step_that_finds_no_room_changes_nothing(version: str) -> None:
    """Neither rows nor windows; nor does a verification of V1."""
    engine = built(version, 3, 1, 4, full_size=8, swa_size=8, window=2)
    served(engine, 0, 1, 2, 3, 4, 5, 6)
    before = engine.raw_free(), engine.raw_mapping(), engine.raw_requests()
    assert not engine.prepare_decode([0])
    if version == "v1":
        assert not engine.begin_verify([0])
    assert (engine.raw_free(), engine.raw_mapping(), engine.raw_requests()) == before


def test_bigrams_are_one_fewer_than_tokens() -> None:
    """And say which tokens they are of."""
    keys = bigrams([3, 1, 2])
    assert [(first(key), second(key)) for key in keys] == [(3, 1), (1, 2)]
    assert bigrams([3]) == bigrams([]) == []


def test_a_tree_of_bigrams_tells_what_comes_after_a_page() -> None:
    """The last token of a request is in no key, and one that goes on otherwise shares a page less."""
    engine = built("v2", 1, 1, 2, page_size=2, bigram=True)
    served(engine, 0, 1, 2, 3, 4)
    assert engine.raw_requests()[0].shared == 2
    (node,) = engine.raw_tree()
    assert (node.tokens, node.after) == ((1, 2), 3)
    assert engine.admit(1, [1, 2, 4, 4, 4]).cached == 0
    assert engine.admit(2, [1, 2, 3, 5, 5]).cached == 2


def test_keys_of_a_cache_without_bigrams_are_tokens() -> None:
    """Nothing is said of what comes after."""
    engine = built("v2", 1, 1, 2, page_size=2)
    served(engine, 0, 1, 2, 3, 4)
    (node,) = engine.raw_tree()
    assert (node.tokens, node.after) == ((1, 2, 3, 4), None)
