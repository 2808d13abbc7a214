"""Run in a process of its own: load one release, do one thing to it, print one line of JSON."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch

from staleloc.models.config import FULL, SWA, Config
from staleloc.sim.targets.base import V_MARK, Batch, Profile, Scope, TargetError
from staleloc.sim.targets.sglang.disagg_release import ANNOUNCED
from staleloc.sim.targets.sglang.fetch import Release, resolve
from staleloc.sim.targets.sglang.spec_stand_ins import SPEC_ANNOUNCED
from staleloc.sim.targets.sglang.target import SglangTarget, load


def smoke(release: Release) -> dict[str, Any]:
    """Every event the release can do, at every page size, in contract and with the expected outcome."""
    target = load(release)
    profiles = Scope().of(target.profiles)
    for profile in profiles:
        for page_size in profile.page_sizes:
            _life_of_a_request(target, profile, page_size)
    return {
        "profiles": {profile.pool: _facts(profile) for profile in profiles},
        # What stands around a decode node and around drafts is announced as well, and is not the pools'.
        "replacements": sorted({leaf.attribute for leaf in set(target.replacements) - {*ANNOUNCED, *SPEC_ANNOUNCED}}),
    }


def _facts(profile: Profile) -> dict[str, Any]:
    return {
        "missing": sorted(profile.missing),
        "per_forward": profile.per_forward,
        "precomputed": profile.precomputed,
    }


def _life_of_a_request(target: SglangTarget, profile: Profile, page_size: int) -> None:
    layers = (SWA,) * 3 if profile.all_swa else (FULL, SWA, SWA)
    config = Config(
        pool=profile.pool,
        page_size=page_size,
        full_size=16 * page_size,
        swa_size=8 * page_size,
        layers=layers,
        dtype=profile.dtypes[0],
    )
    target.build(config)
    empty = target.raw_free()
    locs = _allocate(target, page_size)
    _forward(target, layers, locs, tag=100, storage="fresh")
    _remap(target, profile, page_size, locs)
    _forward(target, layers, locs, tag=200, storage="reused")
    if "cpu_copy" in profile.events:
        target.cpu_copy(1, locs)
    target.free_group_begin()
    target.free(locs, [])
    target.free_group_end()
    assert not any(target.raw_mapping())
    locs = _allocate(target, page_size)
    if "cpu_copy" in profile.events:
        target.load_cpu_copy(1, locs)
        _expect(target, layers, locs, list(range(200, 200 + len(locs))))
        target.move(locs[:1], locs[1:2])
        _expect(target, layers, locs[:1], [201])
    target.free_swa(locs[:page_size])
    assert target.translate(locs[: page_size + 1], source="view")[:page_size] == [0] * page_size
    target.free(locs[page_size:], locs[:page_size])
    assert _sorted(target.raw_free()) == _sorted(empty), (target.raw_free(), empty)
    if page_size > 1 and "alloc_extend_swa_tail" in profile.events:
        _tail(target, page_size)
    if "backup" in profile.events:
        target.backup()
        _allocate(target, page_size)
        target.restore()
    assert _sorted(target.raw_free()) == _sorted(empty)
    target.clear()
    assert target.raw_free() == empty
    assert target.raw_mapping() == [0] * (config.full_size + page_size)


def _sorted(free: Any) -> tuple[list[int], list[int]]:
    return sorted(free.full), sorted(free.swa)


def _allocate(target: SglangTarget, page_size: int) -> list[int]:
    """Two pages and a half: by one call at page size 1, by an extension and a decode step otherwise."""
    count = 2 * page_size + page_size // 2 + 1
    if page_size == 1:
        locs = target.alloc(count)
        assert locs is not None
        return locs
    extended = target.alloc_extend([0], [count - 1], [-1])
    assert extended is not None
    decoded = target.alloc_decode([count], [extended[-1]])
    assert decoded is not None
    return extended + decoded


def _forward(target: SglangTarget, layers: tuple[str, ...], locs: list[int], tag: int, storage: str) -> None:
    target.begin_forward(Batch(locs, storage, 0, False))
    tags = list(range(tag, tag + len(locs)))
    for layer in range(len(layers)):
        target.write_kv(layer, tags)
        if layer == 0:
            assert target.translate_batch(1, 3) == [target.raw_mapping()[loc] for loc in locs[1:3]]
    _expect(target, layers, locs, tags)
    target.end_forward()


def _expect(target: SglangTarget, layers: tuple[str, ...], locs: list[int], tags: list[int]) -> None:
    mapping = target.raw_mapping()
    for layer, kind in enumerate(layers):
        rows = target.read_kv(layer, locs)
        slots = [mapping[loc] for loc in locs] if kind == SWA else locs
        raw = target.raw_contents(layer)
        assert rows.keys == [raw.keys[slot] for slot in slots] == tags
        if rows.values is not None and raw.values is not None:
            assert rows.values == [raw.values[slot] for slot in slots] == [tag + V_MARK for tag in tags]


def _remap(target: SglangTarget, profile: Profile, page_size: int, locs: list[int]) -> None:
    before = target.raw_mapping()
    fresh = target.register_mapping(locs[:page_size])
    assert target.raw_mapping() == [
        dict(zip(locs, fresh, strict=False)).get(loc, swa) for loc, swa in enumerate(before)
    ]
    assert target.register_mapping([]) == []
    if "set_mapping" in profile.events:
        target.free_swa(locs[:page_size])
        fresh = target.set_mapping(locs[:page_size])
        assert target.translate(locs[:page_size], source="fresh") == fresh


def _tail(target: SglangTarget, page_size: int) -> None:
    locs = target.alloc_extend_swa_tail(0, 3 * page_size, -1, page_size)
    assert locs is not None
    swa = target.translate(locs, source="fresh")
    assert swa[: 2 * page_size] == [0] * (2 * page_size)
    assert all(swa[2 * page_size :])
    target.free(locs[2 * page_size :], locs[: 2 * page_size])


def stub(release: Release) -> dict[str, Any]:
    """Use something the sealed import leaves out: a move by kernel."""
    target = load(release)
    os.environ["SGLANG_NATIVE_MOVE_KV_CACHE"] = "0"
    target.build(Config(full_size=8, swa_size=8))
    target.kv.full_kv_pool._kv_copy_config = {"bytes_per_tile": 128, "byte_tiles": 1, "num_warps": 4}
    try:
        target.move([1], [2])
    except TargetError as error:
        return {"error": type(error).__name__, "message": str(error)}
    return {"error": None}


def drift(release: Release) -> dict[str, Any]:
    """Rename a parameter of the allocator and load."""

    def rename(module: str, source: str) -> str:
        return source.replace("free_index", "indices") if module.startswith("sglang.srt.mem_cache.") else source

    try:
        load(release, rename)
    except TargetError as error:
        return {"message": str(error)}
    return {"message": None}


def misfit(release: Release) -> dict[str, Any]:
    """Load with a transform that finds that it does not fit."""

    def refuse(module: str, _source: str) -> str:
        raise ValueError(f"no place for the edit in {module}")

    try:
        load(release, refuse)
    except ValueError as error:
        return {"message": str(error)}
    return {"message": None}


def twice(release: Release) -> dict[str, Any]:
    """Load two releases into one process."""
    load(release)
    try:
        load(release)
    except TargetError as error:
        return {"message": str(error)}
    return {"message": None}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(globals()[sys.argv[2]](resolve(sys.argv[1]))))
