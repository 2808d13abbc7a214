"""The audit on real releases: the sites that a reader finds, and the one that no cache is guarded against."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import warm

from staleloc.sim.audit.source.program import read_tree
from staleloc.sim.audit.source.sites import map_of, read_program
from staleloc.sim.targets.sglang.fetch import Release

Available = Callable[[str], Release]

SITES = {
    "sglang==0.5.12": [
        "DeepSeekV4TokenToKVPool.register_mapping",
        "SWAKVPool.register_mapping",
        "SWATokenToKVPoolAllocator.alloc",
        "SWATokenToKVPoolAllocator.alloc",
        "SWATokenToKVPoolAllocator.alloc_extend",
        "SWATokenToKVPoolAllocator.alloc_extend",
        "SWATokenToKVPoolAllocator.alloc_extend_swa_tail",
        "SWATokenToKVPoolAllocator.alloc_decode",
        "SWATokenToKVPoolAllocator.alloc_decode",
        "SWATokenToKVPoolAllocator.set_full_to_swa_mapping",
        "SWATokenToKVPoolAllocator.set_full_to_swa_mapping",
        "SWATokenToKVPoolAllocator.free_swa",
        "SWATokenToKVPoolAllocator.clear",
    ],
    "sglang==0.5.18": [
        "SWATokenToKVPoolAllocator.alloc_extend_swa_tail",
        "SWATokenToKVPoolAllocator.alloc_decode",
        "SWATokenToKVPoolAllocator.alloc_decode",
        "SWATokenToKVPoolAllocator.set_full_to_swa_mapping",
        "SWATokenToKVPoolAllocator.free_swa",
        "SWATokenToKVPoolAllocator.clear",
        "DeepSeekV4TokenToKVPool.register_mapping",
        "SWAKVPool.register_mapping",
        "SWARadixCache._recover_tombstone_keeping_locked_full",
        "SWAComponent.apply_component_action",
    ],
    "sglang==0.5.23": [
        "SWATokenToKVPoolAllocator.alloc_decode",
        "SWATokenToKVPoolAllocator.alloc_decode",
        "SWATokenToKVPoolAllocator.set_full_to_swa_mapping",
        "SWATokenToKVPoolAllocator.clear_full_to_swa_mapping",
        "SWATokenToKVPoolAllocator.clear_full_to_swa_mapping",
        "SWATokenToKVPoolAllocator.clear",
        "DeepSeekV4TokenToKVPool.register_mapping",
        "SWAKVPool.register_mapping",
    ],
}
"""Release -> functions of its ``mem_cache`` with a statement that changes the mapping, one for each, checked by reading
every line that names it."""

CACHES = {
    "sglang==0.5.12": {"DeepSeekV4TokenToKVPool.cached_loc"},
    "sglang==0.5.18": {"UnifiedTreeNode.component_data[].value"},
    "sglang==0.5.23": {"UnifiedTreeNode.component_data[].value", "SWATokenToKVPoolAllocator.swa_free_group"},
}


@pytest.mark.parametrize("target", SITES)
def test_the_sites_of_a_release_are_those_that_a_reader_finds(target: str, available: Available) -> None:
    """No more and no fewer in its ``mem_cache``; and among its caches are those that are known."""
    folder = available(target).root / "sglang" / "srt" / "mem_cache"
    found = map_of(read_program(read_tree(folder, "sglang.srt.mem_cache")))
    assert not found.unread
    assert [it.spot.function for it in found.sites if it.changes] == SITES[target]
    assert {it.name for it in found.caches} >= CACHES[target]


def test_a_release_that_shipped_the_bug_is_unguarded(available: Available, tmp_path: Path) -> None:
    """SGLang PR 25889: a replaced mapping leaves the answer of the layers before. Shown by a tape of five events."""
    available("sglang==0.5.12")
    file = tmp_path / "audit.json"
    words = ["--target", "sglang==0.5.12", "--rounds", "5", "--guards", "*:*.register_mapping", "--json", str(file)]
    words += ["--github", "--prefix", "python/sglang"]
    done = warm.run(["-m", "staleloc.sim", "audit", *words], tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    sites = {it["function"]: it for it in json.loads(file.read_text())["sites"] if it["kind"] == "replace"}
    site = sites["DeepSeekV4TokenToKVPool.register_mapping"]
    assert (site["verdict"], site["served"].keys()) == ("unguarded", {"DeepSeekV4TokenToKVPool.cached_loc"})
    assert "> 4  register_mapping" in done.stdout
    assert f"::error file=python/sglang/{site['path']},line={site['line']}," in done.stdout
    assert list((tmp_path / "staleloc-tapes").glob("*stale-translation.json"))
