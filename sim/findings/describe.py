"""A tape in words: each event as a KV-cache engineer would say it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...models.config import Config
from ..core.tape import Tape
from ..parts.allocator.ledger import Ledger

__all__ = ["config_words", "steps"]


def config_words(config: Config) -> str:
    """The cache in one line."""
    parts = [
        f"{config.pool} pool",
        f"policy {config.policy}",
        f"page size {config.page_size}",
        f"{config.full_size} full and {config.swa_size} SWA slots",
        f"layers {' '.join(config.layers)}",
        f"window {config.window}",
        config.dtype,
    ]
    if config.host_full_size:
        parts.append(f"host {config.host_full_size} full and {config.host_swa_size} SWA slots, {config.write_policy}")
    if config.need_sort:
        parts.append("sorted free lists")
    if "spec" in config.features:
        parts.append(f"speculative {config.spec_version}, {config.spec_steps} steps of {config.spec_topk}")
        parts.append(f"{config.spec_draft_tokens} tokens verified")
    if config.bigram:
        parts.append("keys are bigrams")
    return ", ".join(parts)


def steps(tape: Tape) -> list[str]:
    """What each event does, without its name."""
    if tape.config.level != "allocator":
        return [event.say(None) for event in tape.events]
    ledger = Ledger(tape.config)
    words = []
    events: Sequence[Any] = tape.events
    for event in events:
        words.append(event.say(ledger))
        ledger.apply(event)
    return words
