"""The settings under which a release is imported and driven: its environment variables, and those of its server.

Releases ask for server settings in different ways: one object up to 0.5.16, a namespace for each topic later. The
names are the same, so one flat object answers all of them. A name that is not here fails.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ....models.config import Config
from ..base import TargetError

__all__ = ["ENVIRONMENT", "SETTINGS", "Settings", "attention_backends", "current_settings", "most_draft_tokens"]

ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "",  # the release must take its CPU paths on a machine with a GPU too
    "SGLANG_NATIVE_MOVE_KV_CACHE": "1",  # move rows with torch, not with a kernel
    "SGLANG_RUST_BUILD_MODE": "never",  # the tree core in Rust is the wheel's own or none
    "SGLANG_SWA_EVICTION_INTERVAL": "1",  # windows are evicted when the tape says so
    "SGLANG_SWA_EVICTION_INTERVAL_MULTIPLIER": "1000",  # the same setting up to 0.5.13; see EngineRelease.window_step
    "SGLANG_OPT_CACHE_SWA_TRANSLATION": "1",  # the switch of the DeepSeek-V4 pool's cached loc (PR 25889)
}
"""Name -> value, set before anything of the release is imported."""


class _Never:
    """False, as a value and as a method: releases differ in which of them a setting is."""

    def __bool__(self) -> bool:
        return False

    def __call__(self) -> bool:
        return False


class Settings:
    """One server's settings; those that depend on the cache under test are set when it is built."""

    page_size: int = 1
    hicache_ratio: float = 2.0
    hicache_write_policy: str = "write_through"
    hicache_size = 0
    served_model_name = "model"
    hicache_mem_layout = "layer_first"
    hicache_io_backend = "direct"
    hicache_storage_backend = None
    hicache_storage_backend_extra_config = None
    hicache_storage_prefetch_policy = "best_effort"
    hicache_host_memory_mode = "cache"
    attention_backend = backend = "torch_native"
    enable_unified_memory = False
    chunked_prefill_size = -1
    speculative_algorithm: str | None = None
    speculative_num_steps: int | None = None
    speculative_eagle_topk: int | None = None
    speculative_num_draft_tokens: int | None = None
    enable_multi_layer_eagle = False
    strip_thinking_cache = False
    disaggregation_mode = "null"
    disaggregation_decode_enable_radix_cache = False
    disaggregation_decode_retraction_backup = "cpu_tensor"
    disaggregation_decode_allocation_policy = "early"
    disaggregation_decode_host_receive_threshold = 1
    disaggregation_enable_kv_checksum = False
    disaggregation_transfer_backend = "mooncake"
    disable_radix_cache = False
    dcp_enabled = False
    dcp_size = 1
    attn_dcp_size = 1
    tp_rank = pp_rank = attn_tp_rank = 0
    tp_size = pp_size = dp_size = 1
    attn_tp_group = SimpleNamespace(cpu_group=None)
    extra_metric_labels = None
    schedule_policy = "fcfs"
    retraction_policy = "length"
    enable_encoder_swa_bounded_replay = False
    enable_hisparse = enable_metrics = enable_mis = False
    disaggregation_decode_enable_offload_kvcache = False
    enable_request_time_stats_logging = False
    sampling_mask_max_tokens = 0

    def serve(self, page_size: int) -> None:
        """The server computes its prompts itself."""
        self.page_size = page_size
        self.disaggregation_mode = "null"
        self.disaggregation_decode_enable_radix_cache = self.disable_radix_cache = False
        self.chunked_prefill_size = -1

    def serve_scheduler(self, config: Config) -> None:
        """The server computes its prompts itself, in chunks perhaps, and keeps a prefix tree or not."""
        self.serve(config.page_size)
        self.disable_radix_cache = not config.prefix_cache
        self.chunked_prefill_size = config.chunk or -1

    def serve_decode(self, page_size: int, tree: bool) -> None:
        """The server gets its prompts' KV from others, and keeps a prefix tree or not."""
        self.page_size = page_size
        self.disaggregation_mode = "decode"
        self.disaggregation_decode_enable_radix_cache, self.disable_radix_cache = tree, not tree

    def speculate(self, config: Config | None) -> None:
        """The server decodes speculatively as a config says, or it does not."""
        dflash = config is not None and config.spec_version == "dflash"
        self.speculative_algorithm = ("DFLASH" if dflash else "EAGLE") if config else None
        self.speculative_num_steps = config.spec_steps if config else None
        self.speculative_eagle_topk = config.spec_topk if config else None
        self.speculative_num_draft_tokens = config.spec_draft_tokens if config else None

    @property
    def max_speculative_num_draft_tokens(self) -> int | None:
        """As many as there are: nothing adapts."""
        return self.speculative_num_draft_tokens

    enable_mamba_extra_buffer = enable_mamba_extra_buffer_lazy = _Never()

    @staticmethod
    def is_config_namespace_published(_name: str) -> bool:
        """Nothing is published beside this object."""
        return False

    @property
    def features(self) -> Settings:
        """A group of settings from 0.5.21."""
        return self

    @property
    def mamba(self) -> Settings:
        """A group of settings by 0.5.20."""
        return self

    @property
    def attn(self) -> Settings:
        """A group of settings in 0.5.15."""
        return self

    @property
    def kernel(self) -> Settings:
        """A group of settings in 0.5.17."""
        return self

    def __getattr__(self, name: str) -> Any:
        raise TargetError(f"the release asks for the server setting {name!r}; the adapter needs an update")


SETTINGS = Settings()


def current_settings(*_args: object) -> Settings:
    """The result of every accessor of a release."""
    return SETTINGS


def attention_backends() -> tuple[str, str]:
    """The backends of prefill and decode; with this one, rows of ``req_to_token`` are written with torch."""
    return SETTINGS.attention_backend, SETTINGS.attention_backend


def most_draft_tokens() -> int | None:
    """How many tokens are verified in one step at most."""
    return SETTINGS.max_speculative_num_draft_tokens
