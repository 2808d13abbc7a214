"""A patch that adds compact() to an allocator: it re-packs the SWA pool, so that its live pages lie
together at the end of it.

    python patch.py builtin FOLDER                      # a copy of the embedded target, patched: builtin@FOLDER
    python patch.py sglang==0.5.12.post1 FOLDER         # a copy of a release, patched: sglang@FOLDER
    python patch.py builtin FOLDER --forget             # the same, and compact() forgets to drop the cached translation

Then: staleloc audit --target builtin@FOLDER --events events.py

For SGLang it is written for 0.5.12 to 0.5.18. Newer allocators keep free pages in a list of another name; there it
loses them, and the first tape says so.
"""

from __future__ import annotations

import argparse
import ast
import shutil
import textwrap
from pathlib import Path

METHODS = {
    "builtin": '''
        def compact(self):
            """Move the live SWA pages to the end of the pool, their rows and the mapping with them."""
            size, pages = self.page_size, self.swa._pages
            free = set(self.swa.free_pages())
            live = [page for page in range(1, pages + 1) if page not in free]
            first = pages + 1 - len(live)
            place = torch.zeros(pages + 1, dtype=torch.int64)
            place[live] = torch.arange(first, pages + 1)
            entries = self.full_to_swa_index_mapping[:-1]
            entries.copy_(place[entries // size] * size + entries % size)
            for buffer in self.pool.buffers_of["swa"]:
                rows = buffer.view(buffer.shape[0], pages + 1, -1)
                rows[:, first:] = rows[:, live]
            self.swa.restore((list(range(1, first)), []))
            self.policy.invalidate()
    ''',
    "sglang": '''
        def compact(self):
            """Move the live SWA pages to the end of the pool, their rows and the mapping with them."""
            inner, pool, size = self.swa_attn_allocator, self._kvcache, self.page_size
            pages = inner.size // size
            place = torch.ones(pages + 1, dtype=torch.int64)
            place[0] = place[inner.free_pages] = place[inner.release_pages] = 0
            live = place.nonzero().flatten()
            first = pages + 1 - len(live)
            place[live] = torch.arange(first, pages + 1)
            entries = self.full_to_swa_index_mapping[:-1]
            entries.copy_(place[entries // size] * size + entries % size)
            pool = getattr(pool, "swa_kv_pool", pool)
            buffers = pool.kv_buffer if hasattr(pool, "kv_buffer") else [*pool.k_buffer, *pool.v_buffer]
            for buffer in buffers:
                rows = buffer.view(torch.uint8).view(pages + 1, -1)
                rows[first:] = rows[live]
            inner.free_pages, inner.release_pages = torch.arange(1, first), inner.release_pages[:0]
            if hasattr(self._kvcache, "invalidate_loc_cache"):
                self._kvcache.invalidate_loc_cache()
            elif hasattr(self._kvcache, "swa_loc"):
                self._kvcache.swa_loc = None
    ''',
}
"""Target -> the method. It runs between two steps of the scheduler, when no free group is open."""

CLASSES = {
    "builtin": {"swa": "SwaAllocator"},
    "sglang": dict.fromkeys(
        ("sglang.srt.mem_cache.swa_memory_pool", "sglang.srt.mem_cache.allocator.swa"), "SWATokenToKVPoolAllocator"
    ),
}
"""Target -> module -> the class that gets it; a release has one of the two modules."""


def patched(target: str, module: str, source: str, forget: bool = False) -> str:
    """The source of a module with compact(), if it is the allocator's; `forget`: it drops no cached translation."""
    name = CLASSES[target].get(module)
    tree = ast.parse(source)
    found = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    if not found:
        return source
    method = ast.parse(textwrap.dedent(METHODS[target])).body[0]
    assert isinstance(method, ast.FunctionDef)
    if forget:
        method.body.pop()
    end = found[0].end_lineno
    lines = source.splitlines()
    return "\n".join([*lines[:end], "", *textwrap.indent(ast.unparse(method), "    ").splitlines(), *lines[end:], ""])


def copy(target: str, folder: Path, forget: bool = False) -> str:
    """Make a patched copy of a target's sources in a new folder; returns the copy's name as a target."""
    if target == "builtin":
        from staleloc.sim.targets.mutants.transform import builtin_root

        shutil.copytree(builtin_root(), folder, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        from staleloc.sim.targets.sglang.fetch import resolve

        package = resolve(target).root / "sglang"
        shutil.copytree(package, folder / "sglang", ignore=shutil.ignore_patterns("__pycache__"))
    family = "builtin" if target == "builtin" else "sglang"
    for module in CLASSES[family]:
        file = folder.joinpath(*module.split(".")).with_suffix(".py")
        if file.is_file():
            file.write_text(patched(family, module, file.read_text(encoding="utf-8"), forget), encoding="utf-8")
    return f"{family}@{folder}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", help="builtin, sglang==VERSION or sglang@CHECKOUT")
    parser.add_argument("folder", type=Path, help="where the copy goes; must not exist")
    parser.add_argument("--forget", action="store_true", help="compact() drops no cached translation")
    given = parser.parse_args()
    print(copy(given.target, given.folder, given.forget))
