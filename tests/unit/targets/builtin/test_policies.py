"""Cached translations: each policy against a plain gather, and what makes it forget."""

from __future__ import annotations

import random
import warnings

import pytest
import torch
from torch import Tensor

from staleloc.models.config import Config
from staleloc.sim.targets.base import Batch, KeyChangedWarning
from staleloc.sim.targets.builtin import BuiltinTarget
from staleloc.sim.targets.builtin.policies import POLICIES, FirstLayer, Memo, Policy, SideChannel


class Table:
    """A mapping that tests may change under a policy."""

    def __init__(self) -> None:
        self.entries = torch.arange(0, 100, 10)

    def __call__(self, locs: Tensor) -> Tensor:
        return self.entries[locs]


def built(policy: str, pool: str = "hybrid") -> BuiltinTarget:
    target = BuiltinTarget()
    target.build(Config(pool=pool, policy=policy, full_size=16, swa_size=16, layers=("full", "swa", "swa")))
    return target


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_policy_always_answers_as_the_table(policy: str) -> None:
    """Through 300 random steps, invalidated as the contract asks, every answer is the table's."""
    rng = random.Random(policy)
    table = Table()
    cache = POLICIES[policy](table, 1)
    batch = torch.tensor([1, 2, 3])
    cache.begin_forward()
    for _ in range(300):
        match rng.randrange(6):
            case 0:
                table.entries[rng.randrange(10)] = rng.randrange(100)
                cache.invalidate()
            case 1:
                batch.copy_(torch.tensor(rng.sample(range(10), 3)))
                cache.begin_forward()
            case 2:
                cache.set_swa_loc(table(batch))
            case 3:
                layer = rng.choice((1, 2))
                assert cache.translate(batch, layer).tolist() == table(batch).tolist()
            case 4:
                start = rng.randrange(3)
                part = cache.translate_part(batch, start, 3)
                assert part.tolist() == table(batch)[start:].tolist()
            case _:
                other = torch.tensor(rng.sample(range(10), 3))
                assert cache.lookup(other).tolist() == table(other).tolist()
                cache.invalidate()  # The memory of `other` may come back.


@pytest.mark.parametrize(("policy", "pool"), [("memo", "hybrid"), ("first_layer", "dsv4")])
def test_layers_after_the_first_are_answered_from_the_cache(policy: str, pool: str) -> None:
    """A forward over two SWA layers translates once; without a cache, it never hits."""
    for name, hits in ((policy, 1), ("uncached", 0)):
        target = built(name, pool)
        locs = target.alloc(2)
        assert locs is not None
        target.begin_forward(Batch(locs, "fresh", 0, False))
        for layer in range(3):
            target.write_kv(layer, [1, 2])
        assert target.cache_hits() == hits


def test_reading_raw_state_leaves_the_cache_alone() -> None:
    """Checks may look at everything between two layers and change neither answers nor hits."""
    target = built("memo")
    locs = target.alloc(2)
    assert locs is not None
    target.begin_forward(Batch(locs, "fresh", 0, False))
    target.write_kv(1, [1, 2])
    target.raw_mapping(), target.raw_free(), target.raw_contents(1)
    assert target.cache_hits() == 0
    target.write_kv(2, [3, 4])
    assert target.cache_hits() == 1


def test_a_memo_takes_new_contents_in_old_memory_for_the_old_question() -> None:
    """That is why it must be invalidated when a forward starts: by itself it cannot tell."""
    memo = Memo(Table(), 1)
    batch = torch.tensor([1, 2])
    memo.translate(batch, 1)
    batch.copy_(torch.tensor([3, 4]))
    assert memo.translate(batch, 2).tolist() == [10, 20]
    memo.begin_forward()
    assert memo.translate(batch, 1).tolist() == [30, 40]


def test_a_memo_warns_when_layers_of_one_forward_disagree() -> None:
    """Two tensors written in one forward raise a warning; looking up other tensors in between does not."""
    memo = Memo(Table(), 1)
    batch, other = torch.tensor([1, 2]), torch.tensor([3, 4])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        memo.translate(batch, 1)
        memo.lookup(other)
        memo.translate(batch, 2)
        memo.begin_forward()
        memo.translate(other, 1)
    with pytest.warns(KeyChangedWarning, match="layer 2 writes with another loc tensor"):
        memo.translate(batch, 2)


def test_a_side_channel_speaks_for_its_batch_only() -> None:
    """It answers layers and parts of the batch, not other tensors, and not the next batch."""
    channel = SideChannel(Table(), 1)
    batch, other = torch.tensor([1, 2]), torch.tensor([3, 4])
    channel.set_swa_loc(torch.tensor([70, 80]))
    assert channel.translate(batch, 1).tolist() == [70, 80]
    assert channel.translate_part(batch, 1, 2).tolist() == [80]
    assert channel.lookup(other).tolist() == [30, 40]
    channel.begin_forward()
    assert channel.translate(other, 1).tolist() == [30, 40]


def test_a_side_channel_gathers_once_the_mapping_moved() -> None:
    """An invalidated translation made up front is not used again."""
    channel = SideChannel(Table(), 1)
    channel.set_swa_loc(torch.tensor([70, 80]))
    channel.invalidate()
    assert channel.translate(torch.tensor([1, 2]), 1).tolist() == [10, 20]
    assert channel.hits == 0


def test_the_first_swa_layer_refreshes_although_it_is_not_layer_zero() -> None:
    """The answer is made anew at the first layer that translates, wherever that is."""
    table = Table()
    cache = FirstLayer(table, 3)
    cache.translate(torch.tensor([1]), 3)
    table.entries[1] = 90
    assert cache.translate(torch.tensor([1]), 4).tolist() == [10]
    assert cache.translate(torch.tensor([1]), 3).tolist() == [90]


def test_hooks_of_the_base_class_do_nothing() -> None:
    """`uncached` takes every call of the protocol and gathers all the same."""
    policy = Policy(Table(), 1)
    policy.set_swa_loc(torch.tensor([70]))
    policy.begin_forward()
    policy.invalidate()
    assert policy.translate(torch.tensor([1]), 1).tolist() == [10]
    assert policy.hits == 0
