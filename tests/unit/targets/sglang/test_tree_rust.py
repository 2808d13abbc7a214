"""Nodes of the Rust tree core, read off what it prints."""

from __future__ import annotations

import os
from collections import namedtuple
from typing import Any

import pytest
import torch

from staleloc.sim.targets.sglang.tree import RustTreeView, printed

Kinds = namedtuple("Kinds", "FULL SWA")
KINDS: Any = Kinds(0, 1)


class Core:
    """Prints lines past ``sys.stdout``, as an extension module does."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.values: dict[tuple[int, int], list[int]] = {}

    def pretty_print(self) -> None:
        os.write(1, "".join(f"{line}\n" for line in [" [1] 0 full_lock=1 Full=no", *self.lines]).encode())

    def get_component_device_value(self, node: int, kind: int) -> torch.Tensor | None:
        value = self.values.get((node, kind))
        return None if value is None else torch.tensor(value)


def test_what_is_printed_past_python_is_caught(capfd: pytest.CaptureFixture[str]) -> None:
    assert printed(lambda: os.write(1, b"caught\n")) == "caught\n"
    os.write(1, b"passed\n")
    assert capfd.readouterr().out == "passed\n"


def test_a_key_is_known_from_the_insert_and_kept_over_a_split() -> None:
    core = Core()
    view = RustTreeView(core, KINDS, None)
    core.lines = ["   [2] 3 full_lock=1 Full=yes"]
    core.values = {(2, 0): [5, 6, 7], (2, 1): [1, 2, 3]}
    view.walked([10, 11, 12, 99])
    assert [(node.tokens, node.full, node.swa) for node in view.nodes()] == [((10, 11, 12), (5, 6, 7), (1, 2, 3))]
    core.lines = [
        "   [3] 1 full_lock=2 Full=yes",
        "     [2] 2 full_lock=1 Full=yes",
        "     [4] 2 full_lock=0 Full=no",
    ]
    core.values = {(3, 0): [5], (2, 0): [6, 7]}
    view.walked([10, 20, 21])
    nodes = view.nodes()
    assert [(node.node, node.parent, node.tokens) for node in nodes] == [
        (3, None, (10,)), (2, 3, (11, 12)), (4, 3, (20, 21)),
    ]  # fmt: skip
    assert [(node.full_locks, node.swa_locks) for node in nodes] == [(2, -1), (1, -1), (0, -1)]
    assert nodes[0].swa is None
    core.lines = ["   [3] 1 full_lock=2 Full=yes"]
    assert [node.tokens for node in view.nodes()] == [(10,)]


def test_a_match_may_split_a_node_whose_other_half_is_evicted_at_once() -> None:
    """The half that stays has a new number and no descendant that tells its key: the prompt does."""
    core = Core()
    view = RustTreeView(core, KINDS, None)
    core.lines = ["   [2] 3 full_lock=0 Full=yes"]
    view.walked([10, 11, 12])
    core.lines = ["   [3] 2 full_lock=1 Full=yes"]
    view.walked([10, 11, 20])
    assert [(node.node, node.tokens) for node in view.nodes()] == [(3, (10, 11))]


def test_a_key_that_was_never_inserted_is_an_error() -> None:
    core = Core()
    view = RustTreeView(core, KINDS, None)
    core.lines = ["   [2] 3 full_lock=1 Full=yes"]
    with pytest.raises(LookupError, match="node 2 of the Rust tree core has a key that was never inserted"):
        view.nodes()


def test_a_key_of_pairs_has_one_token_more_than_it_is_long() -> None:
    """Two nodes may differ in that token alone, and a split leaves it with the end."""
    core = Core()
    view = RustTreeView(core, KINDS, None, bigram=True)
    core.lines = ["   [2] 2 full_lock=1 Full=yes"]
    view.walked([10, 11, 12])
    core.lines = ["   [2] 2 full_lock=1 Full=yes", "   [3] 2 full_lock=0 Full=yes"]
    view.walked([10, 11, 13])
    assert [(node.tokens, node.after) for node in view.nodes()] == [((10, 11), 12), ((10, 11), 13)]
    core.lines = ["   [4] 1 full_lock=1 Full=yes", "     [2] 1 full_lock=1 Full=yes"]
    assert [(node.tokens, node.after) for node in view.nodes()] == [((10,), 11), ((11,), 12)]
