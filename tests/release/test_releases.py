"""What every supported release must do: load, be driven through every event, and say clearly where it does not fit."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest

from staleloc.sim.targets.sglang.fetch import Release

Probe = Callable[..., dict[str, Any]]

KERNELS = ["alloc_decode_kernel", "alloc_extend_kernel"]

HYBRID = {
    "0.5.11": ({"alloc_extend_swa_tail", "set_mapping"}, "in the pool", [*KERNELS, "cuda.synchronize"]),
    "0.5.12": (set(), "in the pool", [*KERNELS, "cuda.synchronize", "fused_store_cache"]),
    "0.5.12.post1": (set(), "in the pool", [*KERNELS, "cuda.synchronize", "fused_store_cache"]),
    "0.5.13": (set(), "once a forward", KERNELS),
    "0.5.14": ({"backup", "restore"}, "once a forward", KERNELS),
    "0.5.16": ({"backup", "restore"}, "once a forward", KERNELS),
    "0.5.18": ({"backup", "restore"}, "once a forward", KERNELS),
    "0.5.19": ({"backup", "restore"}, "once a forward", KERNELS),
    "0.5.23": ({"backup", "restore"}, "once a forward", []),
}
"""Version -> events it lacks, where it translates, what is replaced in it."""

WITH_DSV4 = ("0.5.12", "0.5.12.post1")


@pytest.mark.parametrize("version", HYBRID)
def test_a_release_is_driven_through_every_event(probe: Probe, version: str) -> None:
    missing, translated, replacements = HYBRID[version]
    answer = probe("probe.py", f"sglang=={version}", "smoke")
    assert answer["profiles"]["hybrid"] == {
        "missing": sorted(missing),
        "per_forward": translated == "once a forward",
        "precomputed": translated == "in the pool",
    }
    assert ("dsv4" in answer["profiles"]) == (version in WITH_DSV4)
    assert answer["replacements"] == replacements


def test_a_checkout_is_driven_in_place(probe: Probe, available: Callable[[str], Release]) -> None:
    root = available("sglang==0.5.12").root
    answer = probe("probe.py", f"sglang@{root / 'sglang'}", "smoke")
    assert sorted(answer["profiles"]) == ["dsv4", "hybrid"]


@pytest.mark.parametrize("version", ["0.5.12", "0.5.23"])
def test_a_changed_signature_is_one_clear_line(probe: Probe, version: str) -> None:
    answer = probe("probe.py", f"sglang=={version}", "drift")
    assert answer["message"] == (
        f"sglang=={version}: SWATokenToKVPoolAllocator.free has parameters (indices), expected (free_index); "
        "the adapter needs an update"
    )


def test_what_the_seal_leaves_out_fails_with_its_name_when_used(probe: Probe) -> None:
    answer = probe("probe.py", "sglang==0.5.12", "stub")
    assert answer == {
        "error": "StubUsed",
        "message": "stub used: sglang.srt.mem_cache.memory_pool.copy_all_layer_kv_cache_tiled "
        "[decorated by triton.jit] (subscripted); the sealed import leaves it out, so the adapter needs an update",
    }


def test_what_a_transform_raises_is_not_blamed_on_the_release(probe: Probe) -> None:
    answer = probe("probe.py", "sglang==0.5.12", "misfit")
    assert answer["message"].startswith("no place for the edit in sglang.srt.")


def test_a_second_release_in_one_process_is_refused(probe: Probe) -> None:
    answer = probe("probe.py", "sglang==0.5.12", "twice")
    assert answer["message"] == ("sglang==0.5.12: this process already holds sglang==0.5.12; one release a process")


@pytest.mark.parametrize(("version", "functions"), [("0.5.12", ["extend"]), ("0.5.23", ["decode", "extend"])])
def test_replaced_kernels_agree_with_the_plain_functions(probe: Probe, version: str, functions: list[str]) -> None:
    assert probe("conformance.py", f"sglang=={version}") == {"functions": functions}


@pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="needs triton: pip install 'staleloc[conformance]'"
)
@pytest.mark.parametrize("version", ["0.5.12", "0.5.13", "0.5.19"])
def test_replaced_kernels_agree_with_the_triton_kernels(probe: Probe, version: str) -> None:
    answer = probe("conformance.py", f"sglang=={version}", TRITON_INTERPRET="1")
    assert answer == {"functions": ["decode", "extend"]}
