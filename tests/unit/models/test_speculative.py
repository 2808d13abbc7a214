"""The model of speculative decode: trees, lengths in tokens and in keys, and how far a request is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staleloc.models.config import Config, ConfigError
from staleloc.models.draft_tree import Tree
from staleloc.models.speculative import KeyLen, SpecWorld, TokenLen, alloc_len, key_numbers
from staleloc.sim.targets.speculative import SpecRules

CONFIG = Config(level="engine", features=("spec",), full_size=64, swa_size=64, spec_steps=2, spec_draft_tokens=3)


def world(rules: SpecRules = SpecRules(), **shape: Any) -> SpecWorld:  # noqa: B008 - frozen
    """A world with one request whose prompt is computed."""
    made = SpecWorld(replace(CONFIG, **shape), rules)
    made.arrive(0, [1, 2, 3, 4, 5])
    made.admit(0, 0)
    made.computed(0, 5)
    made.checkpoint(0)
    return made


def test_a_chain_takes_no_other_parents() -> None:
    """With one node a depth there is one tree."""
    assert Tree.of((7, 8), (0, 0, 0), steps=3, topk=1, nodes=4) == Tree((7, 8, 7, 8), (0, 0, 1, 2))


def test_a_tree_keeps_to_its_depth_and_width() -> None:
    """Whatever is asked for: parents that are too deep, not there yet, or of a full level are replaced."""
    for parents in ((), (0,), (0, 0, 0, 0, 0), (0, 1, 2, 3, 4), (5, 4, 3, 2, 1), (0, 0, 1, 1, 1, 1)):
        tree = Tree.of((1, 2, 3), parents, steps=3, topk=2, nodes=7)
        assert len(tree.tokens) == len(tree.parents) == 7
        assert [len(tree.level(depth)) for depth in range(4)] == [1, 2, 2, 2]
        assert all(tree.parents[node] < node for node in range(1, 7))


def test_a_path_leads_from_the_bonus_to_a_node() -> None:
    """And its tokens are those of its nodes."""
    tree = Tree((9, 1, 2, 3, 4), (0, 0, 0, 2, 3))
    assert tree.path(4) == [0, 2, 3, 4]
    assert tree.along(tree.path(4)) == [9, 2, 3, 4]
    assert tree.path(0) == [0]
    assert (tree.depth(4), tree.level(1)) == (3, [1, 2])


def test_tokens_and_keys_do_not_mix() -> None:
    """Bigrams have one key fewer, none has less than none, and lengths of the two kinds have no order."""
    assert TokenLen(5).keys(bigram=False) == KeyLen(5)
    assert TokenLen(5).keys(bigram=True) == KeyLen(4)
    assert TokenLen(0).keys(bigram=True) == KeyLen(0)
    assert KeyLen(7).pages(4) == KeyLen(4)
    with pytest.raises(TypeError):
        assert TokenLen(5) < KeyLen(5)  # type: ignore[operator]
    with pytest.raises(TypeError):
        TokenLen(5) + KeyLen(5)  # type: ignore[operator]


def test_keys_tell_tokens_that_differ_in_what_comes_after() -> None:
    """Two bigrams are equal if both their tokens are."""
    assert key_numbers([1, 2, 3], None, bigram=False) == [1, 2, 3]
    keys = key_numbers([1, 2, 1], 2, bigram=True)
    assert keys[0] == keys[2]
    assert len(set(keys)) == 2
    assert len(key_numbers([1, 2, 1], None, bigram=True)) == 2


@pytest.mark.parametrize(
    ("page_size", "steps", "topk", "nodes", "expected"),
    [(1, 3, 1, 4, 4), (1, 3, 4, 8, 12), (4, 3, 1, 4, 4), (4, 3, 2, 4, 16), (64, 2, 2, 4, 256), (4, 1, 2, 3, 8)],
)
def test_what_a_step_takes(page_size: int, steps: int, topk: int, nodes: int, expected: int) -> None:
    """A slot a node, or whole pages for each branch of a tree, wherever in a page it begins."""
    config = replace(CONFIG, page_size=page_size, spec_steps=steps, spec_topk=topk, spec_draft_tokens=nodes)
    assert alloc_len(config) == expected


def test_a_row_grows_to_twice_a_step_beyond_what_is_committed() -> None:
    """In whole pages where the engine counts so, and never back."""
    assert world(page_size=4).goal(0) == 12
    assert world(SpecRules(whole_pages=False), page_size=4).goal(0) == 11
    grown = world(page_size=4)
    grown.speculating(0).allocated = 40
    assert grown.goal(0) == 40


@pytest.mark.parametrize(("page_size", "topk", "expected"), [(1, 1, 7), (1, 3, 11), (4, 1, 7), (4, 3, 16)])
def test_where_a_draft_of_v1_ends(page_size: int, topk: int, expected: int) -> None:
    """Each branch of a tree that meets pages starts on one of its own, with the page that the request is in."""
    shape = {"spec_draft_tokens": 3, "spec_topk": topk, "spec_version": "v1", "page_size": page_size}
    assert world(**shape).draft_end(0) == expected


def test_a_step_of_v2_is_committed_late() -> None:
    """Accepted tokens are computed at once, and committed when the scheduler knows of them."""
    made = world()
    request = made.speculating(0)
    for accepted in ([0, 1], [0]):
        made.prepare(0)
        made.draft(0, Tree((6, 7, 8), (0, 0, 1)))
        made.accept(0, accepted)
    assert (request.committed, request.computed, request.allocated) == (5, 8, 11)
    assert request.tokens == [1, 2, 3, 4, 5, 6, 7, 6]
    made.commit(0)
    assert (request.committed, request.uncommitted) == (7, [1])


def test_a_step_of_v1_leaves_nothing_allocated() -> None:
    """What is accepted is committed, and all that has slots."""
    made = world(spec_version="v1")
    made.prepare(0)
    assert made.speculating(0).allocated == 5
    made.draft(0, Tree((6, 7, 8), (0, 0, 1)))
    made.accept(0, [0, 1, 2])
    request = made.speculating(0)
    assert request.committed == request.computed == request.allocated == 8


def test_the_drafts_kv_of_a_token_depends_on_the_next_one_under_bigrams() -> None:
    """So that of the last token is not known before the bonus is."""
    made = world(bigram=True)
    assert made.draftable(0) == 4
    assert made.draft_tags(0, 0, 4, 1) == made.row_tags(0, 1, 5, 1)
    made.draft(0, Tree((6, 7, 8), (0, 0, 1)))
    assert made.draftable(0) == 5
    assert made.draft_tags(0, 4, 5, 0) == [made.tags.tag(made.node_prefixes(0)[0], 0)]
    plain = world()
    assert plain.draftable(0) == 5
    assert plain.draft_tags(0, 0, 5, 0) == plain.row_tags(0, 0, 5, 0)


def test_a_node_is_its_path() -> None:
    """Two nodes with one token have the KV of one prefix only if what is before them is the same."""
    made = world()
    made.draft(0, Tree((6, 7, 7, 8, 8), (0, 0, 0, 1, 0)))
    prefixes = made.node_prefixes(0)
    assert prefixes[1] == prefixes[2]
    assert prefixes[3] != prefixes[4]


def test_how_much_of_a_row_must_have_left_its_window() -> None:
    """Whole pages in front of the window, but for one page that an engine may keep."""
    made = world(window=1, page_size=1)
    assert made.must_be_evicted(0) == 3
    assert world(window=1, page_size=4).must_be_evicted(0) == 0
    assert world(window=8).must_be_evicted(0) == 0


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"spec_version": "v3"}, "spec_version must be one of v1, v2, dflash"),
        ({"spec_version": "dflash", "bigram": True}, "dflash has neither trees nor bigrams"),
        ({"spec_steps": 0}, "spec_steps and spec_topk must be 1 to"),
        ({"spec_topk": 17}, "spec_steps and spec_topk must be 1 to"),
        ({"spec_draft_tokens": 2}, "spec_draft_tokens must be 2 to 3, and 3 for a chain"),
        ({"spec_topk": 2, "spec_draft_tokens": 6}, "spec_draft_tokens must be 2 to 5"),
        ({"features": ()}, "are of speculative decode"),
        ({"features": ("graphs",), "spec_steps": 1, "spec_draft_tokens": 2, "bigram": True}, "and bigram are of"),
    ],
)
def test_a_draft_that_cannot_be(shape: dict[str, Any], message: str) -> None:
    """The message says which rule is broken."""
    with pytest.raises(ConfigError, match=message):
        replace(CONFIG, **shape).check()
    CONFIG.check()


def test_a_request_of_v2_finishes_when_a_result_is_known() -> None:
    """Not between a preparation and its verification, and after its first step not before something is committed."""
    made = world()
    allowed = []
    for do in (
        made.prepare, lambda number: made.draft(number, Tree((6, 7, 8), (0, 0, 1))),
        lambda number: made.accept(number, [0]), made.prepare, made.commit,
    ):  # fmt: skip
        do(0)
        allowed.append((made.may_leave(0), made.may_finish(0)))
    assert allowed == [(False, False), (False, False), (True, True), (False, False), (False, False)]
    made.draft(0, Tree((6, 7, 8), (0, 0, 1)))
    made.accept(0, [0])
    assert (made.may_leave(0), made.may_finish(0)) == (True, True)
    made.commit(0)
    made.prepare(0)
    made.draft(0, Tree((6, 7, 8), (0, 0, 1)))
    made.accept(0, [0])
    assert (made.may_leave(0), made.may_finish(0)) == (True, False)


def test_a_request_of_v1_leaves_at_any_time() -> None:
    """Its draft holds nothing."""
    made = world(spec_version="v1")
    made.prepare(0)
    made.draft(0, Tree((6, 7, 8), (0, 0, 1)))
    assert made.may_leave(0)
    assert made.may_finish(0)
