"""A release of SGLang as a target. Loaded inside a worker process only: one release a process."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ....models.config import FULL, SWA, Config
from ..arena import Arena
from ..base import Batch, Profile, Rows, TargetError
from . import capability, drift, leaves
from .allocator import AllocatorDriver
from .engine_parts import EngineParts
from .fakes import FAKES, Fake, fake_names
from .leaves import Leaf
from .overlap import OverlapDriver
from .pools import Dsv4Pool, HybridPool
from .seal import Transform, seal
from .settings import ENVIRONMENT
from .sources import Release, find_release
from .switches import throw

__all__ = ["SglangTarget", "load", "load_release"]

_ALLOCATOR_MODULE = "sglang.srt.mem_cache.allocator.swa"
_DSV4_MODULE = "sglang.srt.mem_cache.deepseek_v4_memory_pool"


class SglangTarget(AllocatorDriver, OverlapDriver):
    """See `Target`.

    Attributes:
        fakes: names of stubbed modules that were given an answer.
    """

    adapter: tuple[str, ...] = (f"{__package__}.",)

    def __init__(self, name: str, allocator_class: Any, replacements: tuple[Leaf, ...]) -> None:
        self.name = name
        self.profiles: tuple[Profile, ...] = ()
        self._leaves = replacements
        self.fakes: tuple[Fake, ...] = FAKES
        self._allocator_class = allocator_class
        self._pools: dict[str, HybridPool | Dsv4Pool] = {}
        self._engine: EngineParts | None = None

    @property
    def replacements(self) -> tuple[Leaf, ...]:
        """The replaced leaves among the release's imported modules."""
        return self._leaves + (self._engine.replacements() if self._engine is not None else ())

    def offer(self, profile: Profile, pool: HybridPool | Dsv4Pool) -> None:
        """Add one way to be driven, after building one cache of each kind of page to see that it fits.

        Raises:
            TargetError: the release's state is not where the adapter looks for it.
        """
        self.profiles += (profile,)
        self._pools[profile.pool] = pool
        for page_size in {profile.page_sizes[0], profile.page_sizes[-1]}:
            config = Config(
                pool=profile.pool,
                page_size=page_size,
                full_size=2 * page_size,
                swa_size=page_size,
                layers=(SWA,) if profile.all_swa else (FULL, SWA),
                dtype=profile.dtypes[0],
            )
            self.build(config)
            drift.check_state(self.name, self.allocator, self.kv, config)

    def offer_engine(self, profiles: tuple[Profile, ...], parts: EngineParts) -> None:
        """Add the engine level. Its part of the release is imported, and tried, when it is first built."""
        self.profiles += profiles
        self._engine = parts

    def build(self, config: Config) -> None:
        if config.pool not in self._pools:
            raise TargetError(f"{self.name} has no {config.pool} pool with a cached translation to test")
        throw(config.switches)
        self._pool = self._pools[config.pool]
        kv = self._pool.build(config)
        allocator = self._allocator_class(
            size=config.full_size,
            size_swa=config.swa_size,
            page_size=config.page_size,
            dtype=kv.dtype,
            device="cpu",
            kvcache=kv,
            need_sort=config.need_sort,
        )
        self._arena = Arena()
        self.attach(allocator, kv, self._arena)
        self._copies: dict[int, Any] = {}
        self._loc = torch.empty(0, dtype=torch.int64)
        self.tree = None
        if config.level == "engine":
            self._build_engine(config, kv, allocator)

    def _build_engine(self, config: Config, kv: Any, allocator: Any) -> None:
        parts, pool = self._engine, self._pool
        if parts is None or not isinstance(pool, HybridPool):
            raise TargetError(f"{self.name} cannot be driven at the engine level with this pool")
        self.without_overlap()
        if {"disagg", "spec"} <= set(config.features):
            self.attach_spec_node(parts.decode, parts.spec, pool.another(), config, pool, kv, allocator)
            return
        if "disagg" in config.features:
            self.without_spec()
            self.attach_node(parts.decode, config, pool, kv, allocator)
            return
        if parts.wants_trial(config):
            parts.trial(self, config)
            self.build(config)
            return
        engine = (parts.release, parts.tiers(config), config, pool, kv, allocator)
        if "scheduler" in config.features:
            self.attach_scheduler(parts.schedule, *engine[1:])
            if "overlap" in config.features:
                self.attach_overlap(parts.overlap)
        elif "spec" in config.features:
            self.attach_spec(parts.spec, pool.another(), config, *engine)
        else:
            self.attach_engine(*engine)

    def begin_forward(self, batch: Batch) -> None:
        self._loc = self._arena.place(batch.locs, batch.storage, batch.offset)
        self._pool.begin(self._loc, self.allocator, batch.precomputed)

    def write_kv(self, layer: int, tags: list[int]) -> None:
        self._pool.write(layer, tags)

    def read_kv(self, layer: int, locs: list[int]) -> Rows:
        rows: Rows = self._pool.read(layer, self._arena.fresh(locs), self.allocator)
        return rows

    def _translate(self, loc: torch.Tensor) -> list[int]:
        swa: list[int] = self.allocator.translate_loc_from_full_to_swa(loc).flatten().tolist()
        return swa

    def translate_batch(self, start: int, stop: int) -> list[int]:
        return self._translate(self._loc[start:stop])

    def translate(self, locs: list[int], source: str) -> list[int]:
        return self._translate(self._arena.ask(locs, source))

    def end_forward(self) -> None:
        """See `Target.end_forward`. The releases do nothing here."""

    def cpu_copy(self, copy: int, locs: list[int]) -> None:
        self._copies[copy] = self.allocator.get_cpu_copy(self._arena.fresh(locs))

    def load_cpu_copy(self, copy: int, locs: list[int]) -> None:
        self.allocator.load_cpu_copy(self._copies[copy], self._arena.fresh(locs))

    def move(self, targets: list[int], sources: list[int]) -> None:
        self.kv.move_kv_cache(self._arena.fresh(targets), self._arena.fresh(sources))

    def raw_contents(self, layer: int) -> Rows:
        rows: Rows = self._pool.contents(layer)
        return rows

    def cache_hits(self) -> int:
        hits: int = self._pool.cache_hits()
        return hits


def load(release: Release, transform: Transform | None = None) -> SglangTarget:
    """Import one release into this process and return it as a target.

    Args:
        release: from `fetch.resolve`.
        transform: rewrites the release's sources in memory before they are compiled.

    Raises:
        TargetError: this process holds a release already, or the release does not fit the adapter. What
            `transform` raises comes out as it is.
    """
    os.environ.update(ENVIRONMENT)
    not_ours: list[Exception] = []

    def rewrite(module: str, source: str) -> str:
        try:
            return transform(module, source) if transform else source
        except Exception as error:
            not_ours.append(error)
            raise

    seal(release.name, release.root, fake_names(), transform=rewrite if transform else None, bytecode=release.bytecode)
    try:
        return _load(release, mutated=transform is not None)
    except TargetError:
        raise
    except Exception as error:
        if error in not_ours:
            raise
        raise TargetError(drift.explain(release.name, error)) from error


def load_release(arguments: Sequence[str], mutated: Mapping[str, str]) -> SglangTarget:
    """The release that the first argument names, or the one that is installed, behind our adapter.

    Its tree, allocator, pools and host tier are imported for real; everything else it names is a stub that fails when
    used, so that a CPU and torch are enough.

    Args:
        mutated: sources by module that are taken in place of the release's own.

    Raises:
        TargetError: it is not there, or does not fit the adapter.
    """
    release = Release("this release", None, find_release(arguments[0] if arguments else None))
    return load(release, (lambda module, source: mutated.get(module, source)) if mutated else None)


def _load(release: Release, *, mutated: bool) -> SglangTarget:
    pools = importlib.import_module("sglang.srt.mem_cache.swa_memory_pool")
    memory_pool = importlib.import_module("sglang.srt.mem_cache.memory_pool")
    # The allocator has its own module from 0.5.13.
    home = pools if hasattr(pools, "SWATokenToKVPoolAllocator") else importlib.import_module(_ALLOCATOR_MODULE)
    allocator_class = home.SWATokenToKVPoolAllocator
    drift.check_calls(release.name, allocator_class, drift.ALLOCATOR)
    drift.check_calls(release.name, pools.SWAKVPool, drift.HYBRID)
    dsv4 = None
    if capability.has_cached_loc(release.root):
        dsv4 = importlib.import_module(_DSV4_MODULE).DeepSeekV4TokenToKVPool
        drift.check_calls(release.name, dsv4, drift.DSV4)
    target = SglangTarget(release.name, allocator_class, leaves.install())
    hybrid = HybridPool(pools.SWAKVPool, memory_pool)
    target.offer(
        capability.hybrid_profile(
            allocator_class, release.root, per_forward=hybrid.per_forward, precomputed=hybrid.precomputed
        ),
        hybrid,
    )
    if dsv4 is not None:
        target.offer(capability.dsv4_profile(allocator_class, release.root), Dsv4Pool(dsv4))
    engine = capability.engine_profile(release.root)
    if engine is not None:
        legacy = capability.legacy_profile(engine, release.root)
        decode = capability.decode_profile(engine, release.root)
        spec = capability.spec_profile(engine, release.root)
        schedule = capability.scheduler_profiles(engine, legacy)
        schedule += capability.overlap_profiles(schedule, release.root)
        both = capability.spec_node_profile(decode, spec, release.root) if decode and spec else None
        parts = EngineParts(release.name, engine.host, decode is not None, spec is not None, trusted=mutated)
        if mutated:
            parts.load()  # so that every edit can be made now
        target.offer_engine(
            tuple(it for it in (engine, legacy, decode, spec, both, *schedule) if it is not None), parts
        )
    return target
