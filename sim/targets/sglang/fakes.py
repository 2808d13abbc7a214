"""The few names of stubbed modules that the KV-cache layer really calls on a CPU, each with a plain answer.

Everything else a stubbed module is asked for stays a stub and fails when used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum

from .settings import attention_backends, current_settings, most_draft_tokens

__all__ = ["FAKES", "Fake", "fake_names"]


@dataclass(frozen=True)
class Fake:
    """One name given for real.

    Attributes:
        module: the stubbed module it belongs to; a release without that module has no use for it.
        name: its name there.
        value: the replacement.
        reason: one line for ``staleloc targets show``.
    """

    module: str
    name: str
    value: object
    reason: str


def _no(*_args: object, **_kwargs: object) -> bool:
    return False


def _nothing(*_args: object, **_kwargs: object) -> dict[str, object]:
    return {}


def _forget(*_what: object) -> None:
    pass


class _Quiet:
    """Test double of a record of times, which is never read."""

    def __init__(self, **_facts: object) -> None:
        pass

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("set_"):
            raise AttributeError(name)
        return _forget


class _Hidden(IntEnum):
    """Test double of ``CaptureHiddenMode``: no hidden states are computed."""

    NULL = 0
    LAST = 1
    FULL = 2

    def need_capture(self) -> bool:
        """Whether any are."""
        return self is not _Hidden.NULL


class _Mode(Enum):
    """Test double of ``ForwardMode``, with which a batch announces its forward."""

    IDLE = 0
    DECODE = 1
    TARGET_VERIFY = 2
    EXTEND = 3

    def is_idle(self) -> bool:
        """Whether there is nothing to run."""
        return self is _Mode.IDLE

    def is_decode(self) -> bool:
        """Whether a decode step runs."""
        return self is _Mode.DECODE

    def is_extend(self) -> bool:
        """Whether prompts are computed."""
        return self is _Mode.EXTEND


class _Orchestrator:
    """Test double of the penalties of sampling: there are none."""

    is_required = False


class _Sampling:
    """Test double of ``SamplingBatchInfo``: a tape says what is sampled."""

    penalizer_orchestrator = _Orchestrator()

    @classmethod
    def from_schedule_batch(cls, *_what: object) -> _Sampling:
        """That of a new batch."""
        return cls()

    def filter_batch(self, *_which: object) -> None:
        """Requests leave."""

    def merge_batch(self, _other: object) -> None:
        """Requests join."""


class _Forward:
    """Stands for ``ForwardBatch``: a forward that is not run."""

    @staticmethod
    def init_new(*_what: object, **_facts: object) -> None:
        """Nothing is made of it."""


def _no_hidden(*_modes: object) -> _Hidden:
    return _Hidden.NULL


def _nobody() -> None:
    pass


class _Experts:
    """Test double of the record of routed experts in 0.5.11, which is asked for each request: there are none."""

    @staticmethod
    def get_routed_experts(**_which: object) -> None:
        """Those of one request."""


def _experts() -> type[_Experts]:
    return _Experts


_CAPTURE = "each KV write checks whether a CUDA graph is being captured"
_NO_KERNEL = "a CPU has no such kernel"
_SETTINGS = "settings of the server, one object for all"

FAKES: tuple[Fake, ...] = (
    Fake("sglang.srt.plugins", "load_plugins_by_group", _nothing, "no platform plugins"),
    Fake("sglang.srt.model_executor.cuda_graph_runner", "get_is_capture_mode", _no, _CAPTURE),
    Fake("sglang.srt.model_executor.runner", "get_is_capture_mode", _no, _CAPTURE),
    *(
        Fake("sglang.srt.hardware_backend.npu.dsv4.dsv4_common_hooks", name, _no, "does nothing except on an NPU")
        for name in ("maybe_build_dsv4_verify_bundle", "maybe_evict_dsv4_state", "maybe_evict_dsv4_state_on_swa")
    ),
    Fake("sglang.srt.layers.deep_gemm_wrapper.configurer", "DEEPGEMM_PAGED_SPARSE_MQA_LOGITS", False, _NO_KERNEL),
    *(
        Fake(module, "is_unified_kv_triton", _no, _NO_KERNEL)
        for module in (
            "sglang.kernels.ops.attention.dsv4.unified_kv_kernels.env_gate",
            "sglang.srt.layers.attention.dsv4.unified_kv_gate",
        )
    ),
    *(
        Fake("sglang.srt.model_executor.forward_batch_info", name, value, why)
        for name, value, why in (
            ("CaptureHiddenMode", _Hidden, "a request asks for none"),
            ("ForwardMode", _Mode, "names the next forward"),
            ("ForwardBatch", _Forward, "never used: no forward runs"),
            ("get_server_return_hidden_states_mode", _no_hidden, "a request asks for none"),
            ("get_required_capture_hidden_mode", _no_hidden, "a request asks for none"),
        )
    ),
    *(
        Fake(module, name, _no, "prompts are not split between ranks")
        for module, name in (
            ("sglang.srt.layers.attention.nsa.utils", "is_nsa_prefill_cp_in_seq_split"),
            ("sglang.srt.layers.attention.dsa.utils", "is_dsa_prefill_cp_in_seq_split"),
            ("sglang.srt.layers.utils.cp_utils", "is_prefill_context_parallel_enabled"),
        )
    ),
    Fake("sglang.srt.sampling.sampling_batch_info", "SamplingBatchInfo", _Sampling, "a tape says what is sampled"),
    *(
        Fake(module, name, value, "nothing of a forward is recorded")
        for module, name, value in (
            ("sglang.srt.layers.moe.routed_experts_capturer", "get_global_experts_capturer", _experts),
            ("sglang.srt.state_capturer.routed_experts", "get_global_experts_capturer", _nobody),
            ("sglang.srt.state_capturer.indexer_topk", "get_global_indexer_capturer", _nobody),
        )
    ),
    Fake("sglang.srt.managers.overlap_utils", "RelayPayload", _nothing, "never used: no forward runs"),
    Fake("sglang.srt.observability.req_time_stats", "SchedulerReqTimeStats", _Quiet, "no times are recorded"),
    Fake("sglang.srt.server_args", "get_global_server_args", current_settings, _SETTINGS),
    Fake("sglang.srt.runtime_context", "get_context", current_settings, _SETTINGS),
    Fake("sglang.srt.runtime_context", "mamba_extra_buffer_enabled", _no, _SETTINGS),
    Fake("sglang.srt.runtime_context", "mamba_extra_buffer_lazy_enabled", _no, _SETTINGS),
    Fake("sglang.srt.runtime_context", "max_speculative_num_draft_tokens", most_draft_tokens, _SETTINGS),
    Fake("sglang.srt.runtime_context", "attention_backends", attention_backends, _SETTINGS),
    *(
        Fake("sglang.srt.runtime_context", f"get_{topic}", current_settings, _SETTINGS)
        for topic in ("disagg", "exec", "flags", "memory", "model", "observability", "parallel", "schedule",
                      "server_args", "serving", "spec")
    ),
)  # fmt: skip


def fake_names() -> dict[str, dict[str, object]]:
    """Module -> the names it gives for real, as `seal` takes them."""
    names: dict[str, dict[str, object]] = {}
    for fake in FAKES:
        names.setdefault(fake.module, {})[fake.name] = fake.value
    return names
