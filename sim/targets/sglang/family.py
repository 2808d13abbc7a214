"""The family of SGLang's releases, and how its targets are named."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....models.config import Config
from ..base import Target
from ..family import Family, Rewrite, ScriptTarget, SourceTree, TargetSpec
from ..mutants.transform import Mutant

__all__ = ["Sglang"]

_RELEASES = (
    *("0.5.11", "0.5.12", "0.5.12.post1", "0.5.13", "0.5.13.post1", "0.5.14", "0.5.15", "0.5.15.post1", "0.5.16"),
    *("0.5.17", "0.5.18", "0.5.19", "0.5.20", "0.5.21", "0.5.22", "0.5.23"),
)
"""From the oldest that can be driven to the newest one that was out when this was written."""


_COVERED = tuple(
    f"srt/{path}"
    for path in (
        "mem_cache/allocation*.py",
        "mem_cache/allocator/*.py",
        "mem_cache/allocator.py",
        "mem_cache/*swa_memory_pool.py",
        "mem_cache/unified_cache/*.py",
        "mem_cache/unified_radix_cache.py",
        "mem_cache/swa_radix_cache.py",
        "mem_cache/rust_tree_core/*.py",
        "mem_cache/common.py",
        "mem_cache/l2_transfer.py",
        "mem_cache/memory_pool.py:ReqToTokenPool.*",
        "mem_cache/memory_pool.py:MHATokenToKVPool.*",
        "mem_cache/memory_pool_host.py",
        "mem_cache/pool_host/*.py",
        "mem_cache/hybrid_cache/*.py",
        "mem_cache/prefill_budget.py",
        "managers/cache_controller.py",
        "managers/schedule_policy.py",
        "disaggregation/decode*.py",
        "speculative/dflash_info_v2.py",
        "speculative/eagle_utils.py:eagle_prepare_for_*",
        "speculative/eagle_worker_common.py:duplicate_prefix_tail_to_draft_branches",
        "speculative/eagle_worker_common.py:prepare_for_*",
        "speculative/spec_utils.py:move_accept_tokens_to_target_kvcache",
    )
)
"""The KV-cache layer, and the helpers of speculative decode and of decode nodes that change it."""


class Sglang(Family):
    """See `Family`. A release is foreign code: only worker processes load it, one a process."""

    name = "sglang"
    title = "SGLang"
    forms = ("sglang==VERSION", "sglang@PATH")
    audited = ("sglang==0.5.23",)
    covered = _COVERED
    loads_late = True
    releases = tuple(f"sglang=={version}" for version in _RELEASES)
    pulls = "https://github.com/sgl-project/sglang/pull/"

    def parse(self, text: str) -> TargetSpec | None:
        starts = ("sglang==", "sglang@")
        return TargetSpec(text, self) if text.startswith(starts) and text not in starts else None

    def rows(self, policies: Callable[[str], Sequence[str]]) -> list[tuple[str, str]]:
        from .fetch import installed

        return [
            *((release.name, "in the cache") for release in installed()),
            ("sglang==VERSION", "any other release with a KV cache of full and SWA pools; fetched from PyPI"),
            ("sglang@FOLDER", "a checkout"),
            ("sglang@FILE.whl", "a wheel"),
        ]

    def load(self, spec: TargetSpec, rewrite: Rewrite | None = None) -> Target:
        from . import fetch, target

        return target.load(fetch.resolve(spec.text), rewrite)

    def sources(self, spec: TargetSpec) -> SourceTree:
        from .fetch import resolve

        release = resolve(spec.text)
        return SourceTree(release.root / "sglang", "sglang", release.version)

    def script(self, spec: TargetSpec, mutant: Mutant | None, config: Config, version: str) -> ScriptTarget:
        from .script import script_target

        return script_target(spec.text, mutant)

    def release(self, text: str) -> str | None:
        from .fetch import resolve

        return resolve(text).version

    def add(self, text: str) -> str:
        from .fetch import add

        release = add(text)
        return f"{release.name} is in {release.root}"
