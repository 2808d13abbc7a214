"""The sealed import: the KV-cache layer of one release is imported for real, everything around it is a stub.

Two gates. A finder answers for every ``sglang.*`` module: executed from the release if the
allow-list names it, a stub otherwise. A guard on ``__import__`` answers for packages that modules
of the release import: real if `THIRD_PARTY` names them, absent if `ABSENT` does, a stub otherwise,
whether installed or not, so that what is installed never changes what a run does.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from ..base import TargetError
from .stubs import StubModule, importing

__all__ = ["ABSENT", "ALLOWED", "THIRD_PARTY", "Transform", "seal"]

Transform = Callable[[str, str], str]
"""``transform(module_name, source) -> source``, applied to every module of the release before it is compiled."""

ALLOWED = (
    "sglang.kernels.ops.kvcache.cache_move",
    "sglang.kernels.ops.memory",
    "sglang.kernels.ops.speculative.cache_locs",
    "sglang.kernels.ops.speculative.eagle",
    "sglang.srt.beam_search.batch_tail",
    "sglang.srt.constants",
    "sglang.srt.disaggregation.base",
    "sglang.srt.disaggregation.decode",
    "sglang.srt.disaggregation.decode_hicache_mixin",
    "sglang.srt.disaggregation.decode_schedule_batch_mixin",
    "sglang.srt.disaggregation.kv_events",
    "sglang.srt.disaggregation.utils",
    "sglang.srt.dllm.mixin.req",
    "sglang.srt.environ",
    "sglang.srt.layers.quantization.fp4_kv_cache_quant_method",
    "sglang.srt.managers.cache_controller",
    "sglang.srt.managers.schedule_batch",
    "sglang.srt.managers.schedule_policy",
    "sglang.srt.managers.scheduler_components.batch_result_processor",
    "sglang.srt.managers.scheduler_components.new_token_ratio_tracker",
    "sglang.srt.managers.scheduler_output_processor_mixin",
    "sglang.srt.managers.utils",
    "sglang.srt.mem_cache",
    "sglang.srt.platforms",
    "sglang.srt.rust_extensions",
    "sglang.srt.session",
    "sglang.srt.speculative.base_spec_worker",
    "sglang.srt.speculative.dflash_info_v2",
    "sglang.srt.speculative.eagle_info",
    "sglang.srt.speculative.eagle_info_v2",
    "sglang.srt.speculative.eagle_utils",
    "sglang.srt.speculative.eagle_worker",
    "sglang.srt.speculative.eagle_worker_common",
    "sglang.srt.speculative.eagle_worker_v2",
    "sglang.srt.speculative.spec_info",
    "sglang.srt.speculative.spec_utils",
    "sglang.srt.speculative.triton_ops",
    "sglang.srt.utils",
)
"""Modules, with all below them, that are executed from the release."""

THIRD_PARTY = frozenset({"torch", "numpy", "pydantic", "pydantic_core", "psutil", "msgspec", "packaging",
                         "typing_extensions"})  # fmt: skip
"""Packages that modules of the release get for real."""

ABSENT = frozenset({"aiter", "sgl_kernel", "torch_npu", "torchada"})
"""Packages of accelerators: their import fails, as it does on a machine without one, and the release has a way out."""

_STUBBED = frozenset({"sgl_kernel.kvcacheio"})
"""Parts of them that a release imports whatever the machine is; `leaves` replaces what is called."""


class _Loader(SourceFileLoader):
    """Executes one module of the release, rewritten by the transform if it wants to."""

    def __init__(self, name: str, path: str, transform: Transform | None, bytecode: Path | None) -> None:
        super().__init__(name, path)
        self.transform = transform
        self.bytecode = bytecode

    def get_code(self, fullname: str) -> CodeType | None:
        if self.transform is None:
            return self._as_it_is(fullname)
        source = self.get_source(fullname) or ""
        rewritten = self.transform(fullname, source)
        if rewritten == source:
            return self._as_it_is(fullname)
        return compile(rewritten, self.path, "exec", dont_inherit=True)

    def _as_it_is(self, fullname: str) -> CodeType | None:
        before = sys.pycache_prefix
        if self.bytecode is not None:
            sys.pycache_prefix = str(self.bytecode)
        try:
            return super().get_code(fullname)
        finally:
            sys.pycache_prefix = before

    def exec_module(self, module: ModuleType) -> None:
        with importing():
            super().exec_module(module)


class _StubLoader(importlib.abc.Loader):
    """Makes a stub module, with the names a fake gives it."""

    def __init__(self, names: Mapping[str, object]) -> None:
        self.names = names

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StubModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self.names)


class _Finder(importlib.abc.MetaPathFinder):
    """Answers for every ``sglang.*`` module."""

    def __init__(
        self,
        fakes: Mapping[str, Mapping[str, object]],
        allowed: Iterable[str],
        transform: Transform | None,
        bytecode: Path | None,
    ) -> None:
        self.fakes = fakes
        self.allowed = tuple(allowed)
        self.transform = transform
        self.bytecode = bytecode

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("sglang."):
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is None:
            return None  # the release has no such module either
        real = any(fullname == name or fullname.startswith(f"{name}.") for name in self.allowed)
        if real and fullname not in self.fakes and spec.origin is not None:
            if isinstance(spec.loader, SourceFileLoader):
                spec.loader = _Loader(fullname, spec.loader.path, self.transform, self.bytecode)
            return spec
        stub = ModuleSpec(fullname, _StubLoader(self.fakes.get(fullname, {})), origin=spec.origin)
        stub.submodule_search_locations = spec.submodule_search_locations
        return stub


def _guard(original: Callable[..., Any], third_party: frozenset[str]) -> Callable[..., Any]:
    """`__import__` that keeps packages outside `third_party` away from modules of the release."""
    known = third_party | sys.stdlib_module_names | {"sglang"}
    stubs: dict[str, StubModule] = {}

    def stub(name: str) -> StubModule:
        if name not in stubs:
            stubs[name] = StubModule(name)
            parent, _, last = name.rpartition(".")
            if parent:
                setattr(stub(parent), last, stubs[name])
        return stubs[name]

    def guarded(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        top = name.partition(".")[0]
        if level or top in known or not (globals and str(globals.get("__name__", "")).startswith("sglang.")):
            return original(name, globals, locals, fromlist, level)
        if top in ABSENT and name not in _STUBBED:
            raise ModuleNotFoundError(f"No module named {top!r}", name=top)
        module = stub(name)
        return module if fromlist else stub(top)

    return guarded


_sealed: str | None = None


def seal(
    name: str,
    root: Path,
    fakes: Mapping[str, Mapping[str, object]],
    *,
    transform: Transform | None = None,
    third_party: Iterable[str] = (),
    bytecode: Path | None = None,
) -> None:
    """Open the sealed import of one release: afterwards ``import sglang.srt.mem_cache...`` works.

    Args:
        name: the release, for messages.
        root: the folder that contains the ``sglang`` package.
        fakes: module name -> names that are given for real in a module that is otherwise a stub.
        transform: rewrites sources before they are compiled.
        third_party: packages the release gets for real besides `THIRD_PARTY`.
        bytecode: see `Release.bytecode`.

    Raises:
        TargetError: this process has imported ``sglang`` before; the name is global, so one release a process.
    """
    global _sealed
    if _sealed is not None or "sglang" in sys.modules:
        raise TargetError(f"{name}: this process already holds {_sealed or 'an sglang package'}; one release a process")
    _sealed = name
    package = StubModule("sglang")
    package.__path__ = [str(root / "sglang")]
    package.__spec__ = ModuleSpec("sglang", None, is_package=True)
    sys.modules["sglang"] = package
    sys.meta_path.insert(0, _Finder(fakes, ALLOWED, transform, bytecode))
    builtins.__import__ = _guard(builtins.__import__, THIRD_PARTY | frozenset(third_party))
