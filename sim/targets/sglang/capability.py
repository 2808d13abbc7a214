"""The capabilities of a loaded release, derived from its classes and sources, not from its version."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from ....models.config import EVICTION_POLICIES
from ..base import CALLS, MORE_PAGES, Profile
from ..disagg import NODE_CALLS
from ..engine import ENGINE_CALLS
from ..overlap import OVERLAP_CALLS
from ..scheduler import SCHEDULER_CALLS
from ..speculative import SPEC_CALLS
from ..tags import DTYPES
from .engine_release import PYTHON_CORE, RUST_CORE, SWA_RADIX
from .pools import DSV4_DTYPE
from .sources import CORE_FOLDER
from .switches import offered

__all__ = [
    "decode_profile",
    "dsv4_profile",
    "engine_profile",
    "excluded",
    "has_cached_loc",
    "hybrid_profile",
    "legacy_profile",
    "overlap_profiles",
    "pairs_tree_with_drafts",
    "scheduler_profiles",
    "spec_node_profile",
    "spec_profile",
]

_NO_METHOD = {
    "alloc_extend_swa_tail": ("alloc_extend_swa_tail", "this release has no tail allocation (it came with 0.5.12)"),
    "set_mapping": ("set_full_to_swa_mapping", "this release has no set_full_to_swa_mapping (it came with 0.5.12)"),
    "backup": ("backup_state", "this release has no backup_state (gone in 0.5.17)"),
    "restore": ("restore_state", "this release has no restore_state (gone in 0.5.17)"),
}
_NO_CALLER = "this release never restores a backup: no speculative worker calls restore_state since 0.5.14"
_DSV4_MISSING = {
    "cpu_copy": "DeepSeekV4TokenToKVPool has no CPU copy",
    "load_cpu_copy": "DeepSeekV4TokenToKVPool has no CPU copy",
    "move": "DeepSeekV4TokenToKVPool has no move_kv_cache",
}


def _missing(allocator_class: Any, root: Path) -> dict[str, str]:
    missing = {kind: why for kind, (method, why) in _NO_METHOD.items() if not hasattr(allocator_class, method)}
    if "restore" not in missing and not _restores_anywhere(root):
        missing.update(backup=_NO_CALLER, restore=_NO_CALLER)
    return missing


def _restores_anywhere(root: Path) -> bool:
    """Whether a speculative worker goes back to a saved allocator state."""
    workers = (root / "sglang" / "srt" / "speculative").glob("*.py")
    return any(".restore_state(" in worker.read_text(encoding="utf-8") for worker in workers)


def has_cached_loc(root: Path) -> bool:
    """Whether the DeepSeek-V4 pool of these sources caches translated locs (0.5.12 and 0.5.12.post1)."""
    pool = root / "sglang" / "srt" / "mem_cache" / "deepseek_v4_memory_pool.py"
    return pool.is_file() and "cached_loc" in pool.read_text(encoding="utf-8")


def hybrid_profile(allocator_class: Any, root: Path, *, per_forward: bool, precomputed: bool) -> Profile:
    """The profile of ``SWAKVPool``.

    Args:
        allocator_class: the release's ``SWATokenToKVPoolAllocator``.
        root: the folder that contains the ``sglang`` package.
        per_forward: see `Profile.per_forward`.
        precomputed: see `Profile.precomputed`.
    """
    missing = _missing(allocator_class, root)
    return Profile(
        pool="hybrid",
        policies=("native",),
        page_sizes=(1, 2, 4, 16, 64),
        dtypes=tuple(DTYPES),
        events=frozenset(CALLS).difference(missing),
        missing=missing,
        per_forward=per_forward,
        restores_mapping=False,
        precomputed=precomputed,
    )


def dsv4_profile(allocator_class: Any, root: Path) -> Profile:
    """The profile of ``DeepSeekV4TokenToKVPool``; arguments as for `hybrid_profile`."""
    missing = {**_missing(allocator_class, root), **_DSV4_MISSING}
    return Profile(
        pool="dsv4",
        policies=("native",),
        page_sizes=(4, 16, 64),
        dtypes=(DSV4_DTYPE,),
        events=frozenset(CALLS).difference(missing),
        missing=missing,
        all_swa=True,
        restores_mapping=False,
    )


def engine_profile(root: Path) -> Profile | None:
    """The profile of whole requests over ``UnifiedRadixCache``, or None if these sources have none.

    Args:
        root: the folder that contains the ``sglang`` package.
    """
    tree = root / "sglang" / "srt" / "mem_cache" / "unified_radix_cache.py"
    if not tree.is_file():
        return None
    policies, missing = _cores(root)
    unreachable = {"evicted_in_group": "nothing that a batch's results call makes room on the device"}
    host = "def init_hicache(" in tree.read_text(encoding="utf-8")
    if not host:
        missing["transfer_done"] = "this release's unified tree has no host tier (it came with 0.5.12)"
    kinds = frozenset(ENGINE_CALLS)
    return Profile(
        level="engine",
        pool="hybrid",
        policies=policies,
        page_sizes=(1, 4, 16),
        more_pages=MORE_PAGES,
        dtypes=("float32",),
        events=kinds.difference(missing),
        missing=missing,
        unreachable=unreachable,
        restores_mapping=False,
        host=host,
        small_host=host and _takes_small_hosts(root),
        eviction_policies=EVICTION_POLICIES if _has_policies(root) else EVICTION_POLICIES[:1],
        switches=offered(root),
    )


def _has_policies(root: Path) -> bool:
    """Whether the unified tree asks a strategy which leaf to evict (from 0.5.13)."""
    folder = root / "sglang" / "srt" / "mem_cache"
    trees = (folder / "unified_radix_cache.py", folder / "unified_cache" / "unified_tree_core.py")
    return any("get_eviction_strategy(" in tree.read_text(encoding="utf-8") for tree in trees if tree.is_file())


def _takes_small_hosts(root: Path) -> bool:
    """Whether host pools may be smaller than device pools: a warning where there was an assertion (0.5.15)."""
    pools = root / "sglang" / "srt" / "mem_cache" / "pool_host" / "base.py"
    return pools.is_file() and "is smaller than the device pool" in pools.read_text(encoding="utf-8")


def legacy_profile(engine: Profile, root: Path) -> Profile | None:
    """The profile of whole requests over ``SWARadixCache``, or None if these sources have none.

    Args:
        engine: the profile over the other tree.
        root: the folder that contains the ``sglang`` package.
    """
    if not (root / "sglang" / "srt" / "mem_cache" / "swa_radix_cache.py").is_file():
        return None
    missing = {"transfer_done": "the legacy SWA tree has no host tier"}
    return replace(
        engine,
        policies=(SWA_RADIX,),
        events=engine.events.difference(missing),
        missing=missing,
        host=False,
        small_host=False,
        eviction_policies=EVICTION_POLICIES[:1],
    )


def decode_profile(engine: Profile, root: Path) -> Profile | None:
    """The profile of a decode node, or None if these sources have no tail preallocation.

    It keeps a prefix tree only from PR 27770 (0.5.19) on: the server of an earlier release refuses one with
    sliding-window models.

    Args:
        engine: the profile over ``UnifiedRadixCache``.
        root: the folder that contains the ``sglang`` package.
    """
    module = root / "sglang" / "srt" / "disaggregation" / "decode.py"
    source = module.read_text(encoding="utf-8") if module.is_file() else ""
    if "def _swa_tail_len(" not in source:
        return None
    tree = "def _reclaim_swa_tail_capacity(" in source
    missing = {} if _restores_anywhere(root) else {"draft_slots": _NO_CALLER}
    if not tree:
        missing["evict"] = "the server refuses a prefix tree here with sliding-window models (up to 0.5.18)"
    unreachable = {
        **engine.unreachable,
        "aborted_prebuilt": "a started batch joins the running one at once (since PR 19568)",
    }
    if tree:
        unreachable["prefix_fallback"] = "behind a cached prefix too, only the tail gets SWA slots (PR 27770)"
    return replace(
        engine,
        features=("disagg",),
        decode_tree=tree,
        events=frozenset(NODE_CALLS) - set(missing),
        missing=missing,
        unreachable=unreachable,
        host=False,
        excluded=excluded(root),
    )


def spec_node_profile(decode: Profile, spec: Profile, root: Path) -> Profile:
    """The profile of speculative decode on a decode node.

    Args:
        decode: the profile of a decode node.
        spec: the profile of speculative decode.
        root: the folder that contains the ``sglang`` package.
    """
    missing = {**decode.missing, "evict_window": spec.missing["evict_window"]}
    refused = ("disagg", "dflash") in decode.excluded
    tree = decode.decode_tree and pairs_tree_with_drafts(root)
    if decode.decode_tree and not tree:
        missing["evict"] = decode.excluded["disagg", "tree", "spec"]
    return replace(
        spec,
        features=("disagg", "spec"),
        decode_tree=tree,
        events=(decode.events | {*SPEC_CALLS}) - {"decode", "draft_slots"} - missing.keys(),
        missing=missing,
        unreachable={name: why for name, why in decode.unreachable.items() if tree or name != "prefix_fallback"},
        host=False,
        spec_versions=tuple(version for version in spec.spec_versions if version != "dflash" or not refused),
        spec_treeless=("dflash",) if ("disagg", "tree", "dflash") in decode.excluded else (),
        excluded=decode.excluded,
    )


def spec_profile(engine: Profile, root: Path) -> Profile | None:
    """The profile of speculative decode over ``UnifiedRadixCache``, or None if these sources have no EAGLE.

    Args:
        engine: the profile over ``UnifiedRadixCache``.
        root: the folder that contains the ``sglang`` package.
    """
    folder = root / "sglang" / "srt" / "speculative"
    if not (folder / "eagle_info.py").is_file():
        return None
    v1, dflash = ((folder / name).is_file() for name in ("eagle_worker.py", "dflash_info_v2.py"))
    missing = {**engine.missing, "evict_window": "a step's preparation evicts windows"}
    # What a step takes: a function that raises NotImplementedError for trees with pages up to 0.5.12.post1.
    sizing = root / "sglang" / "srt" / "managers" / "utils.py"
    return replace(
        engine,
        features=("spec",),
        page_sizes=(1, 4, 64),
        events=(engine.events | {*SPEC_CALLS}) - {"decode"} - missing.keys(),
        missing=missing,
        spec_versions=(*(("v1",) if v1 else ()), "v2", *(("dflash",) if dflash else ())),
        spec_chains=("v2",) if "def get_alloc_len_per_decode(" in sizing.read_text(encoding="utf-8") else (),
    )


def scheduler_profiles(engine: Profile, legacy: Profile | None) -> tuple[Profile, ...]:
    """The profiles of a scheduler over each tree of a release.

    Args:
        engine: the profile over ``UnifiedRadixCache``.
        legacy: the profile over ``SWARadixCache``, if there is one.
    """
    return tuple(
        replace(it, features=("scheduler",), events=frozenset(SCHEDULER_CALLS) - it.missing.keys())
        for it in (engine, legacy)
        if it is not None
    )


def overlap_profiles(schedulers: Iterable[Profile], root: Path) -> tuple[Profile, ...]:
    """The profiles of a scheduler with two batches in flight.

    Args:
        schedulers: the profiles of a scheduler.
        root: the folder that contains the ``sglang`` package.
    """
    scheduler = (root / "sglang" / "srt" / "managers" / "scheduler.py").read_text(encoding="utf-8")
    if "_reqs_finishing_inflight(" in scheduler:
        unreachable = {"filled_in_flight": "a decode batch leaves out who gets the last token in flight (from 0.5.22)"}
    else:
        unreachable = {"left_out_finishing": "a request decodes until its last result is known (up to 0.5.21)"}
    return tuple(
        replace(
            it,
            features=(*it.features, "overlap"),
            events=frozenset(OVERLAP_CALLS) - it.missing.keys(),
            unreachable={**it.unreachable, **unreachable},
        )
        for it in schedulers
    )


def _cores(root: Path) -> tuple[tuple[str, ...], dict[str, str]]:
    """The tree cores of a release as policies, and why one of them is left out."""
    folder = root / CORE_FOLDER
    if not folder.is_dir():
        return ("native",), {}
    if any((folder / f"mem_cache{suffix}").is_file() for suffix in EXTENSION_SUFFIXES):
        return (PYTHON_CORE, RUST_CORE), {}
    return (PYTHON_CORE,), {
        RUST_CORE: "no extension module of it for this interpreter; the wheel has one for CPython 3.11 on Linux x86-64"
    }


_RADIX = "--disaggregation-decode-enable-radix-cache"
_PLACES = (
    *("mem_cache/kv_cache_builder.py", "managers/scheduler.py", "arg_groups/pd_disaggregation_hook.py"),
    *("arg_groups/speculative_hook.py", "server_args.py", "disaggregation/decode_kvcache_offload_manager.py"),
)
_BEFORE = 600


class _Refusal:
    """A message of a release, and the code around it.

    Attributes:
        function: the function that raises it.
        before: the text in front of it.
    """

    def __init__(self, function: str, before: str) -> None:
        self.function = function
        self.before = before


def _find(root: Path, message: str) -> _Refusal | None:
    """Where a release says so; the message may be cut into several strings."""
    pattern = re.compile(r'["\s]+'.join(map(re.escape, message.split())))
    for place in _PLACES:
        path = root / "sglang" / "srt" / place
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        found = pattern.search(text)
        if found is not None:
            names = re.findall(r"^ *def (\w+)\(", text[: found.start()], re.MULTILINE)
            return _Refusal(names[-1], text[max(0, found.start() - _BEFORE) : found.start()])
    return None


def _drafts_refused(root: Path) -> _Refusal | None:
    return _find(root, f"{_RADIX} is incompatible with speculative decoding")


def pairs_tree_with_drafts(root: Path) -> bool:
    """Whether a decode node may keep a prefix tree while EAGLE drafts (0.5.23)."""
    refusal = _drafts_refused(root)
    return refusal is None or '"EAGLE"' in refusal.before


def excluded(root: Path) -> dict[tuple[str, ...], str]:
    """What a decode node of a release does not combine with sliding-window models; see `Profile.excluded`.

    Args:
        root: the folder that contains the ``sglang`` package.
    """
    reasons: dict[tuple[str, ...], str] = {}
    tree = _find(root, f"{_RADIX} is incompatible with sliding window attention")
    if tree is not None:
        reasons["disagg", "tree"] = f"{tree.function} refuses {_RADIX} with sliding-window models"
    host = _find(root, "device-resident cache and is incompatible with --enable-hierarchical-cache")
    if host is not None:
        reasons["disagg", "tree", "host"] = f"{host.function} refuses --enable-hierarchical-cache beside {_RADIX}"
    offload = _find(root, "Unsupported KV cache type for decode offload")
    if offload is not None:
        reasons["disagg", "host"] = (
            "DecodeKVCacheOffloadManager takes no SWAKVPool (--disaggregation-decode-enable-offload-kvcache)"
        )
    drafts = _drafts_refused(root)
    if drafts is not None:
        kept = '"EAGLE"' in drafts.before
        key = ("disagg", "tree", "dflash") if kept else ("disagg", "tree", "spec")
        what = "--speculative-algorithm DFLASH" if kept else "--speculative-algorithm EAGLE and DFLASH"
        reasons[key] = f"{drafts.function} refuses {what} beside {_RADIX}"
    if not (root / "sglang" / "srt" / "speculative" / "dflash_disaggregation.py").is_file():
        reasons["disagg", "dflash"] = "build_disagg_draft_input makes no draft's input for DFLASH (it came with 0.5.18)"
    return reasons
