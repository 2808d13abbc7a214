"""Whether the adapter still fits. A release with changed calls must give a plain message, never a wrong verdict."""

from __future__ import annotations

import inspect
import traceback
from dataclasses import dataclass
from typing import Any

from ....models.config import Config
from ..base import TargetError
from .seal import THIRD_PARTY

__all__ = ["ALLOCATOR", "DSV4", "HYBRID", "Call", "check_calls", "check_state", "explain"]


@dataclass(frozen=True)
class Call:
    """How the adapter calls one method.

    Attributes:
        method: its name.
        variants: parameter names passed by position, one tuple for each generation of the method the adapter knows.
        keywords: parameter names passed by keyword.
        optional: known optional keywords, passed where they exist.
        required: a release without the method cannot be driven; otherwise it lacks an event.
    """

    method: str
    variants: tuple[tuple[str, ...], ...] = ((),)
    keywords: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    required: bool = True

    def fits(self, parameters: list[inspect.Parameter]) -> bool:
        """Whether the call can be made: names in place, and nothing else without a default."""
        named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        names = [p.name for p in named]
        needed = {p.name for p in named if p.default is p.empty}
        return any(
            tuple(names[: len(variant)]) == variant
            and self.keywords <= set(names)
            and needed <= set(variant) | self.keywords | self.optional
            for variant in self.variants
        )

    def describe(self) -> str:
        """The expected parameters, for a message."""
        texts = [", ".join((*variant, *sorted(self.keywords))) for variant in self.variants]
        return " or ".join(f"({text})" for text in texts)


_SIZES = frozenset({"size", "size_swa", "page_size", "dtype", "device"})
_EXTEND = ("prefix_lens", "prefix_lens_cpu", "seq_lens", "seq_lens_cpu", "last_loc", "extend_num_tokens")

ALLOCATOR: tuple[Call, ...] = (
    Call("__init__", keywords=_SIZES | {"kvcache", "need_sort"}),
    Call("alloc", (("need_size",),)),
    Call("alloc_extend", (_EXTEND,)),
    Call("alloc_decode", (("seq_lens", "seq_lens_cpu", "last_loc"),)),
    Call("alloc_extend_swa_tail", ((*_EXTEND, "swa_tail_len"),), required=False),
    Call("free", (("free_index",),)),
    Call("free_swa", (("free_index",),)),
    Call("free_full", (("free_index",),), required=False),
    Call("free_group_begin"),
    Call("free_group_end"),
    Call("set_full_to_swa_mapping", (("full_indices", "swa_indices"),), required=False),
    Call("backup_state", required=False),
    Call("restore_state", (("state",),), required=False),
    Call("clear"),
    Call("translate_loc_from_full_to_swa", (("kv_indices",),)),
    Call("get_cpu_copy", (("indices",),)),
    Call("load_cpu_copy", (("kv_cache_cpu", "indices"),)),
)
"""Calls of ``SWATokenToKVPoolAllocator``."""

HYBRID: tuple[Call, ...] = (
    Call(
        "__init__",
        keywords=_SIZES | {"head_num", "head_dim", "swa_attention_layer_ids", "full_attention_layer_ids"},
        optional=frozenset({"enable_kvcache_transpose"}),
    ),
    Call("register_mapping", (("full_to_swa_index_mapping",),)),
    Call(
        "set_kv_buffer",
        (("layer", "loc", "cache_k", "cache_v"), ("layer", "loc_info", "cache_k", "cache_v")),
        optional=frozenset({"swa_loc"}),
    ),
    Call("get_kv_buffer", (("layer_id",),)),
    Call("move_kv_cache", (("tgt_loc", "src_loc"),)),
    Call("set_swa_loc", (("loc",),), required=False),
)
"""Calls of ``SWAKVPool``."""

DSV4: tuple[Call, ...] = (
    Call(
        "__init__",
        keywords=frozenset({
            "max_num_reqs", "swa_size", "c4_size", "c128_size", "c4_state_pool_size", "c128_state_pool_size",
            "page_size", "swa_page_size", "dtype", "state_dtype", "qk_nope_head_dim", "qk_rope_head_dim",
            "indexer_head_dim", "layer_num", "device", "enable_memory_saver", "compression_ratios",
        }),
    ),
    Call("register_mapping", (("full_to_swa_index_mapping",),)),
    Call("set_swa_key_buffer_radix_fused", (("layer_id", "raw_loc", "cache_k"),)),
    Call("get_swa_key_buffer_radix", (("layer_id",),)),
)  # fmt: skip
"""Calls of ``DeepSeekV4TokenToKVPool``."""


def check_calls(release: str, owner: Any, calls: tuple[Call, ...]) -> None:
    """Compare the adapter's calls with the release's definitions.

    Raises:
        TargetError: a method is missing or takes other parameters.
    """
    for call in calls:
        method = getattr(owner, call.method, None)
        if method is None:
            if call.required:
                raise TargetError(f"{release}: {owner.__name__} has no {call.method}; the adapter needs an update")
            continue
        parameters = list(inspect.signature(method).parameters.values())[1:]
        if not call.fits(parameters):
            found = ", ".join(parameter.name for parameter in parameters)
            raise TargetError(
                f"{release}: {owner.__name__}.{call.method} has parameters ({found}), expected {call.describe()}; "
                "the adapter needs an update"
            )


def check_state(release: str, allocator: Any, kv: Any, config: Config) -> None:
    """Check on a new cache of shape `config` that the raw state is where the adapter looks for it.

    Raises:
        TargetError: it is not.
    """
    try:
        mapping = kv.full_to_swa_index_mapping
        shared = mapping.data_ptr() == allocator.full_to_swa_index_mapping.data_ptr()
        free = [len(sub.free_pages) for sub in (allocator.full_attn_allocator, allocator.swa_attn_allocator)]
    except AttributeError as error:
        raise TargetError(f"{release}: {error}; the adapter needs an update") from None
    found = (shared, mapping.numel(), mapping[-1].item(), free)
    expected = (True, config.full_size + config.page_size + 1, -1, [config.full_pages, config.swa_pages])
    if found != expected:
        raise TargetError(
            f"{release}: a new cache has (mapping shared, its length, its last entry, free pages) = {found}, "
            f"expected {expected}; the adapter needs an update"
        )


def explain(name: str, error: Exception) -> str:
    """The message for an exception from an import.

    Args:
        name: the release's name.
        error: the exception; its traceback has the place.
    """
    text = " ".join(str(error).split())[:200]
    if isinstance(error, ModuleNotFoundError) and error.name in THIRD_PARTY:
        return f"{name} needs the package {error.name}; install the extra: pip install 'staleloc[sglang]'"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{name} has a syntax error: {error.filename}, line {error.lineno}: {error.msg}"
    theirs = [
        f"{frame.f_code.co_filename}, line {line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__", "")).startswith("sglang.")
    ]
    where = f" at {theirs[-1]}" if theirs else ""
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{name} cannot be imported: {what}{where}; fix that place, or update the adapter"
