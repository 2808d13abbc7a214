"""Run in a process of its own: a release's kernels of speculative steps, interpreted, against their replacements."""

from __future__ import annotations

import importlib
import json
import random
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from staleloc.sim.targets.sglang.fakes import fake_names
from staleloc.sim.targets.sglang.fetch import Release, resolve
from staleloc.sim.targets.sglang.seal import seal
from staleloc.sim.targets.sglang.spec_stand_ins import KERNELS, uncompiled

HOMES = (
    "sglang.kernels.ops.speculative.cache_locs",
    "sglang.kernels.ops.speculative.eagle",
    "sglang.srt.speculative.triton_ops.cache_locs",
    "sglang.srt.speculative.triton_ops.eagle",
    "sglang.srt.speculative.spec_utils",
    "sglang.srt.speculative.eagle_info_v2",
    "sglang.srt.mem_cache.allocation",
)

WIDTH, ROWS = 200, 6

Launch = tuple[int, list[Any], tuple[int, ...]]
"""Programs of a launch, its arguments, and which of them it writes."""


def _mend_interpreter() -> None:
    """With numpy from 2.4 on, Triton's interpreter cannot count to a scalar that it keeps as an array of one."""
    interpreter: Any = importlib.import_module("triton.runtime.interpreter")
    patch = interpreter._patch_lang_tensor

    def mended(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = mended


def compare(release: Release) -> dict[str, object]:
    """Random batches through both, each kernel that the release has."""
    _mend_interpreter()
    seal(release.name, release.root, fake_names(), third_party=("triton",))
    with uncompiled():
        modules = [module for module in map(_module, HOMES) if module is not None]
    draw = random.Random(5)
    compared = []
    for name, case in CASES.items():
        kernel = next((vars(module)[name] for module in modules if name in vars(module)), None)
        if kernel is None:
            continue
        compared.append(name)
        for _ in range(12):
            programs, arguments, out = case(draw)
            ours, theirs = ([it.clone() if isinstance(it, torch.Tensor) else it for it in arguments] for _ in range(2))
            KERNELS[name][(programs,)](*ours)
            kernel[(programs,)](*theirs)
            for index in out:
                assert torch.equal(ours[index], theirs[index]), (name, arguments, ours[index], theirs[index])
    return {"kernels": sorted(compared)}


def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None


def _power(count: int) -> int:
    return 1 << (count - 1).bit_length()


def _table(draw: random.Random) -> torch.Tensor:
    return torch.tensor(draw.sample(range(1, 5000), ROWS * WIDTH), dtype=torch.int32).view(ROWS, WIDTH)


def _batch(draw: random.Random) -> tuple[int, torch.Tensor, torch.Tensor]:
    size = draw.randint(1, 4)
    rows = torch.tensor(draw.sample(range(ROWS), size))
    return size, rows, torch.tensor([draw.randint(1, 60) for _ in range(size)])


def _locs(draw: random.Random, count: int) -> torch.Tensor:
    return torch.tensor(draw.sample(range(6000, 9000), count), dtype=torch.int64)


def _assign(draw: random.Random) -> Launch:
    size, rows, start = _batch(draw)
    end = start + torch.tensor([draw.randint(0, 40) for _ in range(size)])
    locs = _locs(draw, int((end - start).sum()))
    return size, [rows, _table(draw), start, end, locs, WIDTH, _power(size)], (1,)


def _gather(draw: random.Random) -> Launch:
    size, arguments, _ = _assign(draw)
    return size, arguments, (4,)


def _contiguous(draw: random.Random) -> Launch:
    size, rows, lens = _batch(draw)
    topk, steps = draw.randint(1, 3), draw.randint(1, 4)
    out = torch.zeros(size * topk * steps, dtype=torch.int64)
    return size, [rows, _table(draw), lens, out, WIDTH, topk, steps], (3,)


def _draft(draw: random.Random) -> Launch:
    size, rows, lens = _batch(draw)
    page, topk, steps = draw.choice([1, 4, 16]), draw.randint(1, 3), draw.randint(1, 4)
    last = lens % page
    pages = (last + steps + page - 1) // page
    extend = pages * page * topk - last if page > 1 and topk > 1 else torch.full_like(lens, topk * steps)
    duplicates = int(last.sum()) * (topk - 1) if page > 1 and topk > 1 else 0
    copies = [torch.zeros(duplicates, dtype=torch.int32) for _ in range(2)]
    locs = _locs(draw, int(extend.sum()))
    arguments = [rows, _table(draw), lens, extend, pages, locs, *copies, torch.cumsum(last, 0), duplicates, WIDTH]
    return size, [*arguments, topk, steps, page, _power(size), _power(steps + page)], (1, 5, 6, 7)


def _align(draw: random.Random) -> Launch:
    size, _, lens = _batch(draw)
    nodes, page = draw.randint(2, 9), draw.choice([4, 16])
    mask = torch.ones(size, nodes, dtype=torch.bool)
    for row in mask:
        row[: draw.randint(1, nodes)] = False
    return size, [lens, mask.flatten(), page, nodes, _power(nodes)], (1,)


def _target(draw: random.Random) -> Launch:
    size, nodes = draw.randint(1, 4), draw.randint(2, 9)
    drafts = torch.tensor([draw.randint(0, nodes - 1) for _ in range(size)])
    free = torch.tensor([draw.randint(0, nodes - 1 - it) for it in drafts.tolist()])
    outs = [torch.zeros(int(count), dtype=torch.int64) for count in ((drafts + 1).sum(), free.sum())]
    arguments = [*outs, drafts, free, _locs(draw, size * nodes), nodes, _power(nodes), _power(size)]
    return size, arguments, (0, 1)


def _fill(draw: random.Random) -> Launch:
    size, width = draw.randint(1, 4), draw.randint(1, 5)
    picked = [draw.choice([-1, draw.randint(0, 19)]) for _ in range(size * width)]
    out = torch.zeros(size * width, dtype=torch.int64)
    arguments = [torch.tensor(picked, dtype=torch.int32), _locs(draw, 20), out, _power(size * width)]
    return size * width, arguments, (2,)


CASES: dict[str, Callable[[random.Random], Launch]] = {
    "align_evict_mask_to_page_size": _align,
    "assign_draft_cache_locs": _draft,
    "assign_draft_cache_locs_contiguous": _contiguous,
    "assign_draft_cache_locs_page_size_1": _contiguous,
    "assign_extend_cache_locs": _gather,
    "assign_req_to_token_pool": _assign,
    "fill_accept_out_cache_loc": _fill,
    "fill_accepted_out_cache_loc": _fill,
    "get_target_cache_loc": _target,
}
"""Kernel -> a random launch."""


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(compare(resolve(sys.argv[1]))))
