"""Run in a process of its own: a release's page functions against the replacements of its kernels."""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
from collections.abc import Callable
from types import ModuleType

import torch

from staleloc.sim.targets.sglang import leaves
from staleloc.sim.targets.sglang.fakes import fake_names
from staleloc.sim.targets.sglang.fetch import Release, resolve
from staleloc.sim.targets.sglang.seal import seal

PageFunction = Callable[..., None]
"""Called as SGLang calls its kernels: lengths, last locs, free pages, out, batch width, page size."""


def compare(release: Release) -> dict[str, object]:
    """Random batches through both; with ``TRITON_INTERPRET=1`` the release's side is its Triton kernels."""
    kernels = os.environ.get("TRITON_INTERPRET") == "1"
    seal(release.name, release.root, fake_names(), third_party=("triton",) if kernels else ())
    functions = _kernels() if kernels else _plain()
    draw = random.Random(7)
    for _ in range(60):
        page_size, batch = draw.choice([2, 4, 16, 64]), draw.randint(1, 5)
        prefix = [draw.randint(0, 3 * page_size) for _ in range(batch)]
        last = [draw.randint(1, 9) * page_size + (tokens - 1) % page_size if tokens else -1 for tokens in prefix]
        free = torch.tensor(draw.sample(range(10, 500), 40))
        grown = [tokens + draw.randint(1, 3 * page_size) for tokens in prefix]
        stepped = [tokens + 1 for tokens in prefix]
        for name, function, replacement, lengths in (
            ("extend", functions.get("extend"), leaves.alloc_extend_pages, (prefix, grown)),
            ("decode", functions.get("decode"), leaves.alloc_decode_pages, (stepped,)),
        ):
            if function is not None:
                count = sum(lengths[-1]) - sum(prefix)
                tensors = [*map(torch.tensor, (*lengths, last)), free]
                ours, theirs = torch.full((count,), -7), torch.full((count,), -7)
                replacement(*tensors, ours, 8, page_size)
                function(*tensors, theirs, 8, page_size)
                assert torch.equal(ours, theirs), (name, lengths, last, free.tolist(), page_size)
    return {"functions": sorted(functions)}


def _module(*names: str) -> ModuleType:
    """The first of these modules the release has."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise AssertionError(names)


def _kernels() -> dict[str, PageFunction]:
    module = _module(
        "sglang.kernels.ops.memory.allocator",
        "sglang.srt.mem_cache.triton_ops.allocator",
        "sglang.srt.mem_cache.allocator",
    )

    def extend(*arguments: object) -> None:
        module.alloc_extend_kernel[(len(arguments[0]),)](*arguments)

    def decode(*arguments: object) -> None:
        module.alloc_decode_kernel[(len(arguments[0]),)](*arguments)

    return {"extend": extend, "decode": decode}


def _plain() -> dict[str, PageFunction]:
    """What the release has in plain torch: the extension always, the decode step from 0.5.22."""
    module = _module("sglang.srt.mem_cache.allocator.paged", "sglang.srt.mem_cache.allocator")

    def extend(*arguments: object) -> None:
        *tensors, _width, page_size = arguments
        module.alloc_extend_naive(*tensors, page_size, "cpu")

    def decode(*arguments: object) -> None:
        seq, last, free, out, _width, page_size = arguments
        new_pages = int(((seq - 1) % page_size == 0).sum())
        module.alloc_decode_naive(seq, last, free, out, page_size, new_pages)

    return {"extend": extend, "decode": decode} if hasattr(module, "alloc_decode_naive") else {"extend": extend}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(compare(resolve(sys.argv[1]))))
