"""Mutants of captured graphs: an answer from before the capture, or from another batch, in every replay."""

from __future__ import annotations

from .edits import drop, graphs, swap
from .transform import Mutant

__all__ = ["GRAPHS"]

_ALL = ("uncached", "side_channel", "memo", "per_forward")

_CAPTURE_BEHIND_TARGET = """
self.target._forward(size)
self.draft.captured[size] = self.draft._capture(size)
"""

_RUN_ON_DRAFTED_SLOTS = """
size = self.target.fitting(len(locs))
self.target.buffers.fill(locs, tags, size)
self.target._replay(size, len(locs))
"""

_WHOLE_BUFFER = """
self.policy.set_swa_loc(self.buffers.swa_locs[:size])
self._write(layer, captured.rows[layer], size)
"""

_BATCH_ONLY = """
batch = locs[: int((locs > 0).sum())]
swa_locs[: len(batch)].copy_(self.gather(batch))
"""

GRAPHS: tuple[Mutant, ...] = (
    graphs(
        "keeps-warm-up",
        "a capture right behind a warm-up finds the translation in the cache, so the graph has none (SGLang PR 25824)",
        drop("runners", "Runner.capture", "self._start(size)"),
        events=("capture", "replay"),
        policies=("memo",),
    ),
    graphs(
        "keeps-last-run",
        "a capture finds the translation of the last batch in the cache: another runner had it in the same buffers",
        drop("runners", "Runner.capture", "self._warm_up(size)"),
        drop("runners", "Runner.capture", "self._start(size)"),
        events=("capture", "replay"),
        policies=("memo",),
    ),
    graphs(
        "keeps-padded-tail",
        "a batch smaller than its graph leaves the locs of a larger one behind it, and padded rows go to live slots",
        drop("graph_buffers", "GraphBuffers.fill", "self.locs[count:size].zero_()"),
        events=("capture", "replay"),
        policies=_ALL,
    ),
    graphs(
        "keeps-padded-translation",
        "the padded tail of the full locs is reset and that of their translation is not (SGLang PR 24743)",
        swap("policies", "SideChannel.plan", "swa_locs.copy_(self.gather(locs))", _BATCH_ONLY),
        events=("capture", "replay"),
        policies=("side_channel",),
    ),
    graphs(
        "binds-recreated-buffer",
        "each run makes its translation in a new tensor, and the graph reads the one that it was captured with",
        swap("policies", "SideChannel.plan", "swa_locs.copy_(self.gather(locs))", "swa_locs = self.gather(locs)"),
        events=("capture", "replay"),
        policies=("side_channel",),
    ),
    graphs(
        "break-binds-capture",
        "what runs at a graph's breaks keeps the metadata of the capture, which is made anew for each run "
        "(SGLang's breakable graphs keep arguments as they were at capture)",
        swap(
            "runners",
            "Breakable._replay",
            "self.policy.set_swa_loc(captured.swa_loc[:count])",
            'self.policy.set_swa_loc(vars(captured).setdefault("kept", captured.swa_loc.clone())[:count])',
        ),
        events=("capture", "replay"),
        policies=("side_channel", "per_forward"),
    ),
    graphs(
        "writes-whole-buffer",
        "a translation made up front is not cut to the batch, and rows of a larger one are written again behind it",
        swap("runners", "Piecewise._replay", "self._write(layer, captured.rows[layer], count)", _WHOLE_BUFFER),
        events=("capture", "replay_chunk"),
        policies=("side_channel",),
    ),
    graphs(
        "draft-keeps-target",
        "the draft's graph is captured with the target's translation in the cache both share, so it has none",
        swap("speculative_runner", "Speculative.capture", "self.draft.capture(size)", _CAPTURE_BEHIND_TARGET),
        events=("capture", "draft"),
        policies=("memo",),
    ),
    graphs(
        "verify-keeps-draft",
        "a verification writes where its draft was computed, although a load-back came between and it was allocated "
        "anew",
        swap("speculative_runner", "Speculative.run_verify", "self.target.run(locs, tags)", _RUN_ON_DRAFTED_SLOTS),
        events=("capture", "draft", "verify"),
        policies=("side_channel",),
    ),
    graphs(
        "smaller-batch-from-end",
        "a batch smaller than its graph is written to the end of a buffer that is read from its front "
        "(SGLang PR 32555)",
        swap("graph_buffers", "GraphBuffers.fill", "rows[:, :count]", "rows[:, size - count : size]"),
        events=("capture", "replay"),
        policies=_ALL,
    ),
)
