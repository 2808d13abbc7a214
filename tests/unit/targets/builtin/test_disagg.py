"""The builtin decode node: what it counts, what it tells the sender, and what comes back from the CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from staleloc.models.config import FULL, SWA, Config
from staleloc.models.disaggregation import Accounts
from staleloc.sim.targets.builtin import BuiltinEngine
from staleloc.sim.targets.builtin.cpu_copy import CHUNK_ROWS
from staleloc.sim.targets.builtin.pools import HybridPool
from staleloc.sim.targets.disagg import Preallocated, Preallocation, Queues

CONFIG = Config(level="engine", features=("disagg",), policy="memo", page_size=4, full_size=32, swa_size=16, window=4)

PROMPT = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]


def node(**changes: object) -> BuiltinEngine:
    target = BuiltinEngine()
    target.build(replace(CONFIG, **changes))  # type: ignore[arg-type]
    return target


def queues(**numbers: tuple[int, ...]) -> Queues:
    names = ("queued", "transferring", "waiting", "prebuilt", "running", "retracted")
    return Queues(**{name: numbers.get(name, ()) for name in names})


def serve(target: BuiltinEngine, number: int, prompt: list[int], most: int = 8) -> None:
    """A request comes as far as the running batch, with one step done."""
    assert target.enqueue(number, prompt, most)
    target.preallocate()
    fill(target, number)
    target.arrived(number, 1)
    target.start()
    target.decode([number], [1])


def fill(target: BuiltinEngine, number: int) -> None:
    """Each row of a request holds 1000 times its number and the position."""
    row, mapping = target.raw_requests()[number].row, target.raw_mapping()
    for layer, kind in enumerate(CONFIG.layers):
        slots = [mapping[loc] if kind == SWA else loc for loc in row]
        held = [(slot, 1000 * number + position) for position, slot in enumerate(slots) if slot]
        target.receive(layer, [slot for slot, _ in held], [tag for _, tag in held])


def test_a_request_goes_through_every_queue() -> None:
    """And is nowhere in the end, with nothing left behind."""
    target = node()
    free = target.raw_free()
    target.enqueue(0, PROMPT, 4)
    assert target.raw_queues() == queues(queued=(0,))
    target.preallocate()
    assert target.raw_queues() == queues(transferring=(0,))
    target.arrived(0, 7)
    assert target.raw_queues() == queues(waiting=(0,))
    target.start()
    assert target.raw_queues() == queues(prebuilt=(0,))
    target.decode([0], [8])
    assert target.raw_queues() == queues(running=(0,))
    target.retract(0)
    assert target.raw_queues() == queues(retracted=(0,))
    assert target.resume() == [0]
    target.start()
    target.finish(0)
    assert target.raw_queues() == queues()
    assert sorted(target.raw_free().full) == sorted(free.full)
    assert sorted(target.raw_free().swa) == sorted(free.swa)


@pytest.mark.parametrize("steps", range(6))
@pytest.mark.parametrize("tree", [False, True])
def test_an_abort_leaves_nothing_behind(steps: int, tree: bool) -> None:
    """After each of a request's steps."""
    target = node(decode_tree=tree)
    target.enqueue(0, PROMPT, 4)
    for step in (
        target.preallocate,
        lambda: target.arrived(0, 7),
        target.start,
        lambda: target.decode([0], [8]),
        lambda: target.retract(0),
    )[:steps]:
        step()
    target.abort(0)
    target.evict(64, 64)
    assert target.raw_queues() == queues()
    assert target.raw_requests() == {}
    assert (len(target.raw_free().full), len(target.raw_free().swa)) == (8, 4)


def test_only_the_tail_gets_swa_slots() -> None:
    """The sender is told the full pages, and the SWA pages of its window."""
    target = node()
    target.enqueue(0, PROMPT, 1)
    assert target.preallocate() == Preallocated((Preallocation(0, 0, (1, 2, 3), (1, 2)),))
    view, mapping = target.raw_requests()[0], target.raw_mapping()
    assert [mapping[loc] for loc in view.row] == [0, 0, 0, 0, 4, 5, 6, 7, 8, 9]
    assert view.evicted == 4


def test_a_pool_of_single_slots_takes_no_tail() -> None:
    """Every token gets an SWA slot; when the batch starts, those that the sender did not fill are given up."""
    target = node(page_size=1)
    assert not target.raw_uses_tail()
    target.enqueue(0, PROMPT, 1)
    target.preallocate()
    view = target.raw_requests()[0]
    assert all(target.raw_mapping()[loc] for loc in view.row)
    target.arrived(0, 1)
    target.start()
    mapping = target.raw_mapping()
    assert [bool(mapping[loc]) for loc in view.row] == [False] * 6 + [True] * 4


def test_behind_a_prefix_every_token_gets_a_slot_at_first() -> None:
    """The sender is told what comes after the prefix."""
    target = node(decode_tree=True, full_size=64, swa_size=64)
    serve(target, 0, PROMPT[:9])
    target.finish(0)
    longer = [*PROMPT[:8], *[3] * 12]
    target.enqueue(1, longer, 1)
    (told,) = target.preallocate().admitted
    assert (told.cached, len(told.full), len(told.swa)) == (8, 3, 1)
    row, mapping = target.raw_requests()[1].row, target.raw_mapping()
    assert all(mapping[loc] for loc in row[8:])
    target.arrived(1, 1)
    target.start()
    mapping = target.raw_mapping()
    assert [bool(mapping[loc]) for loc in row[8:]] == [False] * 8 + [True] * 4


def test_unfilled_rows_never_come_into_the_tree() -> None:
    """What was given up is a tombstone there."""
    target = node(decode_tree=True)
    serve(target, 0, PROMPT)
    assert [(len(view.tokens), view.swa is not None) for view in target.raw_tree()] == [(4, False), (4, True)]


@pytest.mark.parametrize("steps", [0, 1])
def test_a_request_that_outgrew_the_node_does_not_come_back(steps: int) -> None:
    """With its reserved tokens an empty node could not hold it: it would keep all others waiting for ever."""
    target = node(decode_tree=True, reserved_decode=12)
    serve(target, 0, [1] * 3)
    for _ in range(steps):
        target.decode([0], [1])
    target.retract(0)
    assert target.raw_queues() == (queues() if steps else queues(retracted=(0,)))
    assert target.raw_requests() == {}


def test_the_queue_waits_for_its_front() -> None:
    """A request that would fit does not overtake one that does not."""
    target = node()
    serve(target, 0, [1] * 18, most=2)
    target.enqueue(1, [1] * 16, 1)
    target.enqueue(2, [1] * 2, 1)
    assert target.preallocate() == Preallocated(())
    assert target.raw_queues() == queues(queued=(1, 2), running=(0,))
    target.abort(1)
    assert [it.request for it in target.preallocate().admitted] == [2]


def test_a_prompt_that_fits_no_empty_node_is_rejected() -> None:
    """For the full pool, or for its tail and the SWA pool."""
    assert not node().enqueue(0, [1] * 33, 1)
    assert node().enqueue(0, [1] * 32, 1)
    assert not node(window=32).enqueue(0, [1] * 17, 1)


def test_the_tree_gives_up_swa_slots_of_inner_nodes_to_admit() -> None:
    """What the budget counts can be had."""
    target = node(decode_tree=True, swa_size=8)
    serve(target, 0, PROMPT[:8], most=2)
    target.finish(0)
    assert len(target.raw_free().swa) < 2
    target.enqueue(1, [9, 9, 9, 9, 9], 1)
    assert len(target.preallocate().admitted) == 1


@pytest.mark.parametrize("window", [1, 3, 4, 5, 8, 30])
@pytest.mark.parametrize("page", [1, 2, 4])
@pytest.mark.parametrize("tree", [False, True])
def test_it_counts_as_the_model_does(window: int, page: int, tree: bool) -> None:
    """Tails, lengths and charges of requests of every length; budgets are compared in every campaign."""
    target = node(window=window, page_size=page, decode_tree=tree, swa_size=32, reserved_decode=3)
    model = Accounts(page, window, 3, target.raw_uses_tail(), tree, target.rules())
    for length in range(2, 20):
        assert target.raw_tail(length) == model.tail(length)
        target.enqueue(length, [1] * length, 1)
        job = target._jobs.find(length)
        assert target.raw_lengths(length) == model.lengths(job)
        assert target.raw_required(length) == model.required(job)
        assert target.raw_retractable(length) == model.retractable([job]).swa


@pytest.mark.parametrize("window", [0, None])
def test_without_a_window_everything_is_the_tail(window: int | None) -> None:
    """A config always has one; what counts for it is the same code."""
    target = node()
    object.__setattr__(target._accounts._config, "window", window)
    assert [target.raw_tail(length) for length in (0, 1, 4, 9)] == [0, 1, 4, 9]


@pytest.mark.parametrize("prompt", [CHUNK_ROWS - 1, CHUNK_ROWS, CHUNK_ROWS + 1, 2 * CHUNK_ROWS, 11])
@pytest.mark.parametrize("window", [1, 4, 5, 32])
def test_a_retracted_request_comes_back(prompt: int, window: int) -> None:
    """Into other slots, every full row and the window's SWA rows, whether or not chunks are full."""
    target = node(window=window, swa_size=32)
    target.enqueue(0, [1] * prompt, 8)
    target.preallocate()
    fill(target, 0)
    target.arrived(0, 1)
    target.start()
    target.decode([], [])
    target.retract(0)
    mask = target.raw_saved()[0]
    serve(target, 1, [2] * 6)
    assert target.resume() == [0]
    row, mapping = target.raw_requests()[0].row, target.raw_mapping()
    full, swa = target.raw_contents(0), target.raw_contents(1)
    assert [full.keys[loc] for loc in row] == list(range(prompt))
    for position in range(max(0, prompt + 1 - window), prompt):
        assert mask[position]
        assert swa.keys[mapping[row[position]]] == position


def copied(held: list[bool], mapped: list[bool], layers: tuple[str, ...] = (FULL, SWA)) -> list[int]:
    """Keys of the SWA slots of tokens after a copy of tokens with these slots is loaded; a slot of its own each."""
    size = len(held)
    pool = HybridPool(Config(policy="uncached", page_size=1, full_size=2 * size, swa_size=2 * size, layers=layers))
    mapping = torch.zeros(2 * size + 2, dtype=torch.int64)
    locs = torch.arange(1, size + 1)
    mapping[locs] = torch.where(torch.tensor(held), locs, 0)
    fresh = locs + size
    mapping[fresh] = torch.where(torch.tensor(mapped), fresh, 0)
    pool.register_mapping(mapping)
    for buffer in pool.buffers_of[SWA]:
        buffer[:, locs] = locs.to(buffer.dtype).view(-1, 1, 1)
    pool.load_cpu_copy(pool.get_cpu_copy(locs), fresh)
    return [int(key) for key in pool.buffers_of[SWA][0][0, fresh, 0, 0]]


@pytest.mark.parametrize(
    ("held", "mapped", "rows"),
    [
        ([True] * 5, [True] * 5, [1, 2, 3, 4, 5]),
        ([False] * 5, [True] * 5, [0] * 5),
        ([True] * 5, [False] * 5, [0] * 5),
        ([False, False, True, True, True], [False, False, False, True, True], [0, 0, 0, 4, 5]),
        ([False, False, False, True, True], [False, False, True, True, True], [0, 0, 0, 4, 5]),
        ([True, False, True, False, True, True, True], [False, True, True, True, True, False, True],
         [0, 0, 3, 0, 5, 0, 7]),
    ],
)  # fmt: skip
def test_a_load_writes_what_both_masks_allow(held: list[bool], mapped: list[bool], rows: list[int]) -> None:
    """Each row at its own position, for all-true and all-false masks too."""
    assert copied(held, mapped) == rows
    assert copied(held, mapped, layers=(SWA, FULL, SWA)) == rows


def test_layers_of_one_kind_alone_are_copied() -> None:
    """Full layers without rows are nothing to copy."""
    assert copied([False, True, True, True], [True] * 4, layers=(SWA,)) == [0, 2, 3, 4]
