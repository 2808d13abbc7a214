"""Parts that a release does not combine, and which function of its own refuses them."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["excluded", "pairs_tree_with_drafts"]

_RADIX = "--disaggregation-decode-enable-radix-cache"
_PLACES = (
    *("mem_cache/kv_cache_builder.py", "managers/scheduler.py", "arg_groups/pd_disaggregation_hook.py"),
    *("arg_groups/speculative_hook.py", "server_args.py", "disaggregation/decode_kvcache_offload_manager.py"),
)
_BEFORE = 600


class _Refusal:
    """A message of a release, and the code around it.

    Attributes:
        function: the function that raises it.
        before: the text in front of it.
    """

    def __init__(self, function: str, before: str) -> None:
        self.function = function
        self.before = before


def _find(root: Path, message: str) -> _Refusal | None:
    """Where a release says so; the message may be cut into several strings."""
    pattern = re.compile(r'["\s]+'.join(map(re.escape, message.split())))
    for place in _PLACES:
        path = root / "sglang" / "srt" / place
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        found = pattern.search(text)
        if found is not None:
            names = re.findall(r"^ *def (\w+)\(", text[: found.start()], re.MULTILINE)
            return _Refusal(names[-1], text[max(0, found.start() - _BEFORE) : found.start()])
    return None


def _drafts_refused(root: Path) -> _Refusal | None:
    return _find(root, f"{_RADIX} is incompatible with speculative decoding")


def pairs_tree_with_drafts(root: Path) -> bool:
    """Whether a decode node may keep a prefix tree while EAGLE drafts (0.5.23)."""
    refusal = _drafts_refused(root)
    return refusal is None or '"EAGLE"' in refusal.before


def excluded(root: Path) -> dict[tuple[str, ...], str]:
    """What a decode node of a release does not combine with sliding-window models; see `Profile.excluded`.

    Args:
        root: the folder that contains the ``sglang`` package.
    """
    reasons: dict[tuple[str, ...], str] = {}
    tree = _find(root, f"{_RADIX} is incompatible with sliding window attention")
    if tree is not None:
        reasons["disagg", "tree"] = f"{tree.function} refuses {_RADIX} with sliding-window models"
    host = _find(root, "device-resident cache and is incompatible with --enable-hierarchical-cache")
    if host is not None:
        reasons["disagg", "tree", "host"] = f"{host.function} refuses --enable-hierarchical-cache beside {_RADIX}"
    offload = _find(root, "Unsupported KV cache type for decode offload")
    if offload is not None:
        reasons["disagg", "host"] = (
            "DecodeKVCacheOffloadManager takes no SWAKVPool (--disaggregation-decode-enable-offload-kvcache)"
        )
    drafts = _drafts_refused(root)
    if drafts is not None:
        kept = '"EAGLE"' in drafts.before
        key = ("disagg", "tree", "dflash") if kept else ("disagg", "tree", "spec")
        what = "--speculative-algorithm DFLASH" if kept else "--speculative-algorithm EAGLE and DFLASH"
        reasons[key] = f"{drafts.function} refuses {what} beside {_RADIX}"
    if not (root / "sglang" / "srt" / "speculative" / "dflash_disaggregation.py").is_file():
        reasons["disagg", "dflash"] = "build_disagg_draft_input makes no draft's input for DFLASH (it came with 0.5.18)"
    return reasons
