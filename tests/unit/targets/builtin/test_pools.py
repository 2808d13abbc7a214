"""Buffers: rows arrive where they should, and CPU copies keep rows, positions and holes apart."""

from __future__ import annotations

import pytest
import torch

from staleloc.models.config import FULL, SWA, Config
from staleloc.sim.targets.arena import Arena
from staleloc.sim.targets.base import V_MARK, Rows, TargetError
from staleloc.sim.targets.builtin import BuiltinTarget
from staleloc.sim.targets.builtin.cpu_copy import CHUNK_ROWS, copy_in, copy_out, keep_rows
from staleloc.sim.targets.builtin.pools import DeepSeekV4Pool, HybridPool
from staleloc.sim.targets.tags import DTYPES, decode, encode

_LAYERS = (FULL, SWA)


def hybrid(swa_of: dict[int, int]) -> HybridPool:
    """A pool of 20 slots with this mapping, rows of tag 100 + slot in the SWA layer."""
    pool = HybridPool(Config(policy="uncached", full_size=20, swa_size=20, layers=_LAYERS))
    mapping = torch.zeros(22, dtype=torch.int64)
    mapping[-1] = -1
    for loc, swa_loc in swa_of.items():
        mapping[loc] = swa_loc
    pool.register_mapping(mapping)
    for buffer, rows in zip(pool.layer_buffers(1), encode(range(100, 121), torch.float32), strict=True):
        buffer.copy_(rows)
    return pool


def swa_tags(pool: HybridPool, slots: range) -> list[int]:
    rows = decode(*pool.layer_buffers(1))
    assert rows.values == [key + V_MARK for key in rows.keys]
    return [rows.keys[slot] for slot in slots]


@pytest.mark.parametrize("name", DTYPES)
def test_tags_pass_through_buffers_of_any_dtype(name: str) -> None:
    """Tags that look like denormals, infinities and NaNs come back bit by bit."""
    tags = [1, 0x7F80_0001, 0xFFFF_FFFF, (1 << 31) + 7, 1 << 20]
    keys, values = encode(tags, DTYPES[name])
    buffer = torch.zeros(8, 1, 4, dtype=DTYPES[name])
    buffer.index_copy_(0, torch.tensor([7, 1, 3, 2, 5]), values)
    assert decode(keys, buffer[torch.tensor([7, 1, 3, 2, 5])]) == Rows(tags, [tag + V_MARK for tag in tags])


def test_rows_of_unmapped_tokens_go_to_the_dummy_slot() -> None:
    """A write at an SWA layer reaches the mapped slot, and slot 0 for a token without one."""
    pool = hybrid({1: 9})
    pool.set_kv_buffer(1, torch.tensor([1, 2]), *encode([1, 2], torch.float32))
    assert swa_tags(pool, range(9, 10)) == [1]
    assert swa_tags(pool, range(1)) == [2]


def test_a_copy_comes_back_at_its_positions_chunk_by_chunk() -> None:
    """Seven rows, two holes at copy and one other at load: what both have arrives, all else stays."""
    count = 2 * CHUNK_ROWS + 1
    pool = hybrid({loc: loc for loc in range(1, count + 1) if loc not in (2, 5)})
    copy = pool.get_cpu_copy(torch.arange(1, count + 1))
    assert sum(chunk[0].shape[1] for chunk in copy.swa) == count - 2
    pool.register_mapping(torch.tensor([0] * 8 + [11, 12, 0, 14, 15, 16, 17] + [0] * 6 + [-1]))
    pool.load_cpu_copy(copy, torch.arange(8, 8 + count))
    assert swa_tags(pool, range(11, 18)) == [101, 112, 113, 104, 115, 106, 107]


def test_full_rows_of_a_copy_all_come_back() -> None:
    """Full layers know no holes."""
    pool = hybrid({})
    pool.set_kv_buffer(0, torch.arange(1, 6), *encode(range(1, 6), torch.float32))
    copy = pool.get_cpu_copy(torch.arange(1, 6))
    pool.load_cpu_copy(copy, torch.arange(11, 16))
    assert decode(*pool.layer_buffers(0)).keys[11:16] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("count", range(8))
def test_chunks_lose_no_row(count: int) -> None:
    """Whatever the number of rows, copying out, filtering and copying in gives every kept row back."""
    source, target = torch.arange(20.0).view(1, 20, 1, 1), torch.zeros(1, 20, 1, 1)
    locs = torch.arange(1, count + 1)
    mask = locs % 2 == 1
    chunks = keep_rows(copy_out([source], locs), mask)
    assert all(chunk[0].shape[1] <= CHUNK_ROWS for chunk in chunks)
    copy_in([target], locs[mask], chunks)
    assert target.flatten().nonzero().flatten().tolist() == locs[mask].tolist()


def test_a_move_takes_keys_and_values_of_every_layer_along() -> None:
    """Rows move in full and SWA layers, each to its own slots, even where spans overlap."""
    pool = hybrid({1: 9, 2: 8, 3: 7})
    pool.set_kv_buffer(0, torch.tensor([1, 2, 3]), *encode([1, 2, 3], torch.float32))
    pool.move_kv_cache(torch.tensor([1, 2]), torch.tensor([2, 3]))
    assert decode(*pool.layer_buffers(0)).keys[1:4] == [2, 3, 3]
    assert swa_tags(pool, range(7, 10)) == [107, 107, 108]


def test_the_deepseek_like_pool_has_no_values() -> None:
    """It stores one row a token, in SWA layers at translated locs and in full layers at full locs."""
    pool = DeepSeekV4Pool(Config(pool="dsv4", policy="first_layer", full_size=4, swa_size=4, layers=_LAYERS))
    pool.register_mapping(torch.tensor([0, 3, 0, 0, 0, -1]))
    for layer in range(2):
        pool.set_kv_buffer(layer, torch.tensor([1]), encode([5], torch.float32)[0])
    assert [decode(*pool.layer_buffers(layer)) for layer in range(2)] == [
        Rows([0, 5, 0, 0, 0], None),
        Rows([0, 0, 0, 5, 0], None),
    ]


def test_only_what_a_profile_states_is_built() -> None:
    """A policy of the other pool is refused in one line, and events without an implementation have a reason."""
    target = BuiltinTarget()
    with pytest.raises(TargetError, match="no hybrid pool with policy first_layer"):
        target.build(Config(policy="first_layer"))
    dsv4 = target.profiles[1]
    assert set(dsv4.missing) == {"cpu_copy", "load_cpu_copy", "move"}
    assert not dsv4.events & set(dsv4.missing)


def test_an_arena_writes_memory_again_only_when_a_forward_starts() -> None:
    """Views never meet what was placed since the last forward; new memory never comes back."""
    arena = Arena(size=8)
    batch = arena.place([1, 2], "view", 3)
    other = arena.ask([3, 4], "view")
    assert other.data_ptr() == batch.data_ptr() + 16
    assert arena.ask([5, 6], "view").data_ptr() not in (batch.data_ptr(), other.data_ptr())
    assert batch.tolist() == [1, 2]
    again = arena.place([7, 8], "reused", 0)
    assert again.untyped_storage().data_ptr() == batch.untyped_storage().data_ptr()
    assert len({arena.fresh([9]).data_ptr() for _ in range(50)}) == 50
    with pytest.raises(ValueError, match="storage must be"):
        arena.place([1], "elsewhere", 0)


def test_reused_memory_belongs_to_a_new_tensor_and_a_view_is_written_in_place() -> None:
    """As a caching allocator gives a block out again, and as a runner fills its static buffer: what is keyed by
    address alone takes both for the old one, what is keyed by version too takes the first."""
    arena = Arena(size=8)
    first, second = arena.place([1, 2], "reused", 0), arena.place([3, 4], "reused", 0)
    assert first is not second
    assert (first.data_ptr(), first._version) == (second.data_ptr(), second._version)
    assert second.tolist() == [3, 4]
    before = arena.place([1, 2], "view", 2)._version
    assert arena.place([3, 4], "view", 2)._version > before


def test_a_kept_tensor_is_the_same_one_and_a_table_has_two_rows() -> None:
    """Whoever keeps a tensor asks with that very object."""
    arena = Arena()
    kept = arena.ask([1, 2, 3], "kept")
    assert arena.ask([1, 2, 3], "kept") is kept
    assert arena.ask([1, 2], "kept") is not kept
    assert arena.ask([1, 2, 3, -1], "table").tolist() == [[1, 2], [3, -1]]
