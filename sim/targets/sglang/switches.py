"""Environment switches of a release that change what becomes of KV: those that it reads when it uses them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["offered", "throw"]


@dataclass(frozen=True)
class _Switch:
    """A switch by the name that a tape has for it.

    Attributes:
        value: what the variable is set to; it is unset otherwise.
        variables: names of the variable, the latest first.
        what: what it does, and whether a server does so by default.
    """

    value: str
    variables: tuple[str, ...]
    what: str


_SWITCHES = {
    "release-prefill-swa": _Switch(
        "1",
        ("SGLANG_OPT_RELEASE_PREFILL_SWA", "SGLANG_OPT_SWA_RELEASE_LEAF_LOCK_AFTER_WINDOW"),
        "the tree may give up the SWA slots of a prefix once the window of its request has passed it (off by default)",
    ),
    "keep-out-of-window-slots": _Switch(
        "0",
        ("SGLANG_OPT_UNIFIED_CACHE_FREE_OUT_OF_WINDOW_SLOTS",),
        "an insertion frees no SWA slots that lie before the window (it does by default)",
    ),
    "keep-host-duplicates": _Switch(
        "1",
        ("SGLANG_HICACHE_SKIP_HOST_DUPLICATE_RECLAIM",),
        "under write-back, copies on the host of what is on the device give way like any other (off by default)",
    ),
    "retract-for-one-step": _Switch(
        "1",
        ("SGLANG_RETRACT_DECODE_STEPS",),
        "a retraction makes room for one decode step of those that stay, not for twenty (off by default)",
    ),
}

_READERS = ("managers/schedule_batch.py", "mem_cache")


def offered(root: Path) -> dict[str, str]:
    """The switches that the sources of a release read, and what each does.

    Args:
        root: the folder that contains the ``sglang`` package.
    """
    texts = [file.read_text(encoding="utf-8") for file in _files(root / "sglang" / "srt")]
    return {
        name: switch.what
        for name, switch in _SWITCHES.items()
        if any(variable in text for variable in switch.variables for text in texts)
    }


def _files(folder: Path) -> list[Path]:
    paths = [folder / reader for reader in _READERS]
    return [file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]


def throw(names: tuple[str, ...]) -> None:
    """Throw these switches and no others, whatever the last cache had."""
    for name, switch in _SWITCHES.items():
        for variable in switch.variables:
            if name in names:
                os.environ[variable] = switch.value
            else:
                os.environ.pop(variable, None)
