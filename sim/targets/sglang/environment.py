"""Environment variables under which a release is imported and driven."""

from __future__ import annotations

__all__ = ["ENVIRONMENT"]

ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",  # the release must take its CPU paths on a machine with a GPU too
    "SGLANG_NATIVE_MOVE_KV_CACHE": "1",  # move rows with torch, not with a kernel
    "SGLANG_RUST_BUILD_MODE": "never",  # the tree core in Rust is the wheel's own or none
    "SGLANG_SWA_EVICTION_INTERVAL": "1",  # windows are evicted when the tape says so
    "SGLANG_SWA_EVICTION_INTERVAL_MULTIPLIER": "1000",  # the same setting up to 0.5.13; see EngineRelease.window_step
    "SGLANG_OPT_CACHE_SWA_TRANSLATION": "1",  # the switch of the DeepSeek-V4 pool's cached loc (PR 25889)
}
"""Name -> value, set before anything of the release is imported."""
