"""Leaves of the release that need a GPU, replaced by plain equivalents.

Only transfers and kernels are replaced. Allocation, mapping, masks and caches remain the release's own code. Each
replacement is a record, so that a verdict can state its basis.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from types import ModuleType
from typing import Any

import torch

__all__ = ["LEAVES", "Kernel", "Leaf", "alloc_decode_pages", "alloc_extend_pages", "install", "store_leading_bytes"]

Tensor = torch.Tensor


_BEYOND = 1 << 24
"""A page that no pool under test has: read behind the end of a free list, where a GPU finds any number."""


def _and_beyond(free_pages: Tensor) -> Iterator[int]:
    return chain(free_pages.tolist(), repeat(_BEYOND))


def alloc_extend_pages(
    prefix_lens: Tensor,
    seq_lens: Tensor,
    last_loc: Tensor,
    free_pages: Tensor,
    out: Tensor,
    _width: int,
    page_size: int,
) -> None:
    """Fill `out` with the locs of new tokens, as SGLang's ``alloc_extend_kernel`` does.

    A request first fills the page of its last loc, then takes pages from the front of `free_pages`.

    Args:
        prefix_lens: int ``[batch]``, tokens each request has.
        seq_lens: int ``[batch]``, tokens each request will have.
        last_loc: int ``[batch]``, loc of its last token.
        free_pages: int64 ``[pages]``. If they do not suffice, `out` has locs of no pool (`_BEYOND`): the kernel
            reads what lies behind them, and the caller must discard it.
        out: int64 ``[sum(seq_lens - prefix_lens)]``.
        page_size: tokens a page.
    """
    locs: list[int] = []
    pages = _and_beyond(free_pages)
    for prefix, seq, last in zip(prefix_lens.tolist(), seq_lens.tolist(), last_loc.tolist(), strict=True):
        position = min(seq, -(-prefix // page_size) * page_size)
        locs.extend(range(last + 1, last + 1 + position - prefix))
        while position < seq:
            count = min(page_size, seq - position)
            start = next(pages) * page_size
            locs.extend(range(start, start + count))
            position += count
    out.copy_(torch.tensor(locs, dtype=out.dtype))


def alloc_decode_pages(
    seq_lens: Tensor, last_loc: Tensor, free_pages: Tensor, out: Tensor, _width: int, page_size: int
) -> None:
    """Fill `out` with one loc a request, as SGLang's ``alloc_decode_kernel`` does.

    Args:
        seq_lens: int ``[batch]``, tokens each request will have.
        last_loc: int ``[batch]``, loc of its last token.
        free_pages: int64 ``[pages]``. If they do not suffice, `out` has locs of no pool (`_BEYOND`): the kernel
            reads what lies behind them, and the caller must discard it.
        out: int64 ``[batch]``.
        page_size: tokens a page.
    """
    pages = _and_beyond(free_pages)
    locs = [
        next(pages) * page_size if (seq - 1) % page_size == 0 else last + 1
        for seq, last in zip(seq_lens.tolist(), last_loc.tolist(), strict=True)
    ]
    out.copy_(torch.tensor(locs, dtype=out.dtype))


class Kernel:
    """A plain function that is launched like a Triton kernel: ``kernel[grid](...)``."""

    def __init__(self, function: Callable[..., None]) -> None:
        self.function = function

    def __getitem__(self, _grid: object) -> Callable[..., None]:
        return self.function


def store_leading_bytes(*, input: Tensor, cache: Tensor, indices: Tensor, page_size: int, type: str) -> None:
    """Store each token's first eight bytes, unquantized, where SGLang's ``fused_store_cache`` puts its first bytes.

    Args:
        input: ``[tokens, dim]``, at least eight bytes a row.
        cache: uint8 ``[pages, bytes]``; the tokens of a page start 576 bytes apart (layout ``"flashmla"``).
        indices: int ``[tokens]``, SWA locs.
        page_size: tokens a page.
        type: name of the layout.

    Raises:
        NotImplementedError: another layout is asked for.
        IndexError: a loc is outside the pool.
    """
    if type != "flashmla":
        raise NotImplementedError(f"layout {type!r}")
    words = cache.view(torch.int64)
    words[indices // page_size, indices % page_size * 72] = input.contiguous().view(torch.int64)[:, 0]


def _synchronize(_device: object = None) -> None:
    """A CPU has nothing to wait for."""


@dataclass(frozen=True)
class Leaf:
    """One replacement.

    Attributes:
        module: where the name is looked up at run time.
        attribute: the name, possibly dotted.
        value: the replacement.
        releases: which releases need it, in words.
        reason: why the original cannot run on a CPU, and what replaces it.
        needed: whether the loaded release needs it, asked with the module.
        absent: put it in even where the module lacks the name, because it has it on a GPU only.
    """

    module: str
    attribute: str
    value: Any
    releases: str
    reason: str
    needed: Callable[[ModuleType], bool] = lambda _module: True
    absent: bool = False


def _no_cpu_version(paged: ModuleType) -> bool:
    return not hasattr(paged, "alloc_decode_naive")


def _pool_waits_for_cuda(_torch: ModuleType) -> bool:
    memory_pool: Any = sys.modules["sglang.srt.mem_cache.memory_pool"]
    return "cuda" in memory_pool.MHATokenToKVPool.get_cpu_copy.__code__.co_names


_EXTEND = "Triton kernel; the same locs, computed on the CPU (conformance: tests/release)"

LEAVES: tuple[Leaf, ...] = (
    *(
        Leaf(module, name, Kernel(function), releases, _EXTEND, _no_cpu_version)
        for module, releases in (
            ("sglang.srt.mem_cache.allocator", "up to 0.5.12.post1"),
            ("sglang.srt.mem_cache.allocator.paged", "0.5.13 to 0.5.21"),
        )
        for name, function in (
            ("alloc_extend_kernel", alloc_extend_pages),
            ("alloc_decode_kernel", alloc_decode_pages),
        )
    ),
    Leaf(
        "sglang.srt.mem_cache.deepseek_v4_memory_pool",
        "fused_store_cache",
        store_leading_bytes,
        "0.5.12 and 0.5.12.post1",
        "CUDA kernel; the token's first eight bytes go where its first bytes went",
    ),
    Leaf(
        "torch",
        "cuda.synchronize",
        _synchronize,
        "up to 0.5.12.post1",
        "called around CPU copies; a CPU has nothing to wait for",
        _pool_waits_for_cuda,
    ),
)


def install(leaves: Iterable[Leaf] = LEAVES) -> tuple[Leaf, ...]:
    """Put in every replacement that the modules imported so far need; return those."""
    done = []
    for leaf in leaves:
        owner: Any = sys.modules.get(leaf.module)
        if owner is None or not leaf.needed(owner):
            continue
        *path, name = leaf.attribute.split(".")
        for part in path:
            owner = getattr(owner, part)
        if name not in vars(owner) and not leaf.absent:
            continue
        setattr(owner, name, leaf.value)
        done.append(leaf)
    return tuple(done)
