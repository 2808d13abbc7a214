"""The family of SGLang's releases: how its targets are named, and how a stand-alone script comes by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ....models.config import Config
from ..base import Target, TargetError
from ..family import Family, Rewrite, ScriptTarget, ServerShape, SourceTree, TargetSpec
from ..mutants.transform import Mutant, Transform
from . import fetch
from .server_flags import read_server

__all__ = ["Sglang"]

_PACKAGE = __name__.rpartition(".")[0]

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
    plumbing = (r"/mem_cache/(allocator[./]|\w*memory_pool|pool_host/)",)
    releases = tuple(f"sglang=={version}" for version in _RELEASES)
    pulls = "https://github.com/sgl-project/sglang/pull/"

    def parse(self, text: str) -> TargetSpec | None:
        starts = ("sglang==", "sglang@")
        return TargetSpec(text, self) if text.startswith(starts) and text not in starts else None

    def rows(self, policies: Callable[[str], Sequence[str]]) -> list[tuple[str, str]]:
        return [
            *((release.name, "in the cache") for release in fetch.installed()),
            *((folder.name, f"damaged; delete {folder}") for folder in fetch.damaged()),
            ("sglang==VERSION", "any other release with a KV cache of full and SWA pools; fetched from PyPI"),
            ("sglang@FOLDER", "a checkout"),
            ("sglang@FILE.whl", "a wheel"),
        ]

    def load(self, spec: TargetSpec, rewrite: Rewrite | None = None) -> Target:
        from . import target

        return target.load(fetch.resolve(spec.text), rewrite)

    def sources(self, spec: TargetSpec) -> SourceTree:
        release = fetch.resolve(spec.text)
        return SourceTree(release.root / "sglang", "sglang", release.version)

    def script(self, spec: TargetSpec, mutant: Mutant | None, config: Config, version: str) -> ScriptTarget:
        return _script(spec.text, mutant)

    def release(self, text: str) -> str | None:
        return fetch.resolve(text).version

    def checkout(self, folder: Path) -> str | None:
        name = f"sglang@{folder}"
        try:
            fetch.resolve(name)
        except TargetError:
            return None
        return name

    def read_server(self, text: str, features: tuple[str, ...]) -> ServerShape:
        return read_server(text, features)

    def files(self, text: str) -> list[Path]:
        return fetch.files_of(text)

    def add(self, text: str) -> str:
        release = fetch.add(text)
        return f"{release.name} is in {release.root}"


def _script(name: str, mutant: Mutant | None) -> ScriptTarget:
    """See `Family.script`. The release comes from the reader; of it only what has the defect comes along."""
    release = fetch.resolve(name)
    mutated: dict[str, str] = {}
    if mutant is not None:
        transform = Transform(mutant)
        for module in sorted({edit.module for edit in mutant.edits}):
            file = release.root.joinpath(*module.split("."))
            file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
            mutated[module] = transform(module, file.read_text(encoding="utf-8"))
    wheel = f"sglang=={release.version}" if release.version else "sglang"
    run = (
        f"Run it with {wheel} installed:\n\n    python THIS_SCRIPT\n\nor with a wheel, an unpacked wheel or a checkout "
        f"of it, on any machine with torch, numpy, pydantic, psutil,\nmsgspec and packaging; a CPU will do:\n\n"
        f"    pip download --no-deps {wheel}\n    python THIS_SCRIPT sglang-*.whl"
    )
    defect = f" with mutant {mutant.name}" if mutant is not None else ""
    return ScriptTarget(
        made_for=(wheel if release.version else name) + defect,
        run=run,
        roots=(f"{_PACKAGE}.target",),
        imports=("from embedded.sim.targets.sglang.target import load_release",),
        make="load_release(sys.argv[1:], MUTATED)",
        theirs=mutated,
    )
