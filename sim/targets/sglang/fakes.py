"""The few names of stubbed modules that the KV-cache layer really calls on a CPU, each with a plain answer.

Everything else a stubbed module is asked for stays a stub and fails when used.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FAKES", "Fake", "fake_names"]


@dataclass(frozen=True)
class Fake:
    """One name given for real.

    Attributes:
        module: the stubbed module it belongs to; a release without that module has no use for it.
        name: its name there.
        value: what the release gets.
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


_CAPTURE = "asked in every KV write: is a CUDA graph being captured"

FAKES: tuple[Fake, ...] = (
    Fake("sglang.srt.plugins", "load_plugins_by_group", _nothing, "no platform plugins"),
    Fake("sglang.srt.model_executor.cuda_graph_runner", "get_is_capture_mode", _no, _CAPTURE),
    Fake("sglang.srt.model_executor.runner", "get_is_capture_mode", _no, _CAPTURE),
)


def fake_names() -> dict[str, dict[str, object]]:
    """Module -> the names it gives for real, as `seal` takes them."""
    names: dict[str, dict[str, object]] = {}
    for fake in FAKES:
        names.setdefault(fake.module, {})[fake.name] = fake.value
    return names
