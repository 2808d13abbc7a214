"""How a release's scheduler processes the results of a batch, read from its source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ..engine import RESULTS

__all__ = ["BatchResults"]

_MODULES = ("scheduler_components/batch_result_processor.py", "scheduler_output_processor_mixin.py")


@dataclass(frozen=True)
class BatchResults:
    """The calls that a scheduler makes around and inside the processing of a batch.

    ``process_batch_result_decode`` opens a free group in every release, and ends it after the last request was
    released (``release_kv_cache``). ``process_batch_result_prefill`` does so from 0.5.18 on, and checkpoints there the
    prompts that go on; a middle chunk is checkpointed by ``stash_chunked_request``, outside any group.
    ``process_batch_result_prebuilt`` does so on a decode node that keeps a prefix tree.

    Attributes:
        grouped: the kinds of batches whose results are processed inside a free group.
        drops_aborted: inside it, an aborted request is released without being inserted (from 0.5.20 on, for a sampling
            mask that leaves no token: ``_handle_sampling_mask_abort``). Elsewhere an abort only sets ``to_finish``, and
            the request is released as a finished one is.
    """

    grouped: frozenset[str]
    drops_aborted: bool

    @classmethod
    def of(cls, managers: Path) -> BatchResults:
        """Read the scheduler's modules in this folder."""
        source = next(
            (path.read_text(encoding="utf-8") for name in _MODULES if (path := managers / name).is_file()), ""
        )
        grouped = (kind for kind in RESULTS if "free_group_begin()" in _method(source, f"process_batch_result_{kind}"))
        aborts = _method(source, "_handle_sampling_mask_abort")
        return cls(frozenset(grouped), "release_kv_cache(" in aborts)

    def opens(self, kind: str, decode_tree: bool) -> bool:
        """Whether a free group is open while the results of such a batch are processed."""
        return kind in self.grouped and (kind != "prebuilt" or decode_tree)


def _method(source: str, name: str) -> str:
    """The text of a method; empty if there is none."""
    found = re.search(rf"^    def {name}\(.*?(?=^    (?:async )?def |^    @|\Z)", source, re.MULTILINE | re.DOTALL)
    return found.group() if found else ""
