"""A tape in words: each event as a KV-cache engineer would say it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ...models.config import SWA, Config
from ..core.tape import Tape
from ..parts.allocator import events as ev
from ..parts.allocator.ledger import Ledger
from ..parts.declared import Declared

__all__ = ["config_words", "steps", "tokens"]

_LACKING = "does not fit: nothing is allocated"


def tokens(start: int, stop: int) -> str:
    """Positions ``[start, stop)`` for people: ``token 3``, ``tokens 0–3``."""  # noqa: RUF002
    if stop - start == 1:
        return f"token {start}"
    return f"tokens {start}–{stop - 1}" if stop > start else "no tokens"  # noqa: RUF001 - a range is written so


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
        return [_plain(event) for event in tape.events]
    ledger = Ledger(tape.config)
    words = []
    for event in tape.events:
        words.append(_of_file(event) if isinstance(event, Declared) else _WORDS[type(event)](ledger, event))
        ledger.apply(event)
    return words


def _plain(event: ev.Event) -> str:
    """An event's fields as they are."""
    return ", ".join(f"{name} {value}" for name, value in event.arguments().items())


def _of_file(event: Declared) -> str:
    """What the class that declares an event says of it, and its fields."""
    said = (inspect.getdoc(type(event)) or "").partition("\n")[0].strip().rstrip(".")
    return ": ".join(part for part in (said if said.isprintable() else "", _plain(event)) if part)


def _span(request: int, start: int, stop: int) -> str:
    return f"request {request} {tokens(start, stop)}"


def _grown(ledger: Ledger, items: list[tuple[int, int]], swa: int | None = None) -> str:
    full = sum(ledger.new_pages(request, count) for request, count in items)
    if full > ledger.free_full or (full if swa is None else swa) > ledger.free_swa:
        wanted = ", ".join(f"{count} for request {request}" for request, count in items)
        return f"{wanted}: {_LACKING}"
    return "; ".join(_span(request, ledger.length(request), ledger.length(request) + count) for request, count in items)


def _tail(ledger: Ledger, event: ev.AllocExtendSwaTail) -> str:
    grown = _grown(ledger, [(event.request, event.count)], ledger.config.pages(event.tail))
    if grown.endswith(_LACKING):
        return grown
    return f"{grown}, SWA slots for {f'the last {event.tail} only' if event.tail else 'none of them'}"


def _register(ledger: Ledger, event: ev.RegisterMapping) -> str:
    if event.start == event.stop:
        return "new mapping tensor, an equal copy"
    return f"{_span(event.request, event.start, event.stop)}: new mapping tensor, fresh SWA slots"


def _batch(ledger: Ledger, event: ev.BeginForward) -> str:
    batch = "; ".join(_span(*span) for span in event.spans)
    where = {
        "fresh": "locs in fresh memory",
        "reused": "locs in the reused buffer",
        "view": f"locs in the reused buffer at offset {event.offset}",
    }[event.storage]
    up_front = ", translated up front (set_swa_loc)" if event.precomputed else ""
    return f"{batch}; {where}{up_front}"


def _layer(ledger: Ledger, layer: int) -> str:
    return f"layer {layer} ({'SWA' if ledger.config.layers[layer] == SWA else 'full'})"


def _read(ledger: Ledger, event: ev.ReadKv) -> str:
    what = "the window" if ledger.config.layers[event.layer] == SWA else "all positions"
    return f"{_layer(ledger, event.layer)}: {what}"


def _translate(ledger: Ledger, event: ev.Translate) -> str:
    if event.source == "batch":
        assert ledger.forward is not None
        if (event.start, event.stop) == (0, ledger.forward.tokens):
            return "the batch's own locs"
        return f"the batch's own locs, {tokens(event.start, event.stop).replace('token', 'element')}"
    where = {
        "fresh": "locs in fresh memory",
        "padded": "locs in fresh memory, -1 appended",
        "view": "locs in an unused part of the batch's buffer",
        "kept": "locs in a tensor that is kept, the same one each time",
        "table": "locs as two rows of a table",
    }[event.source]
    return f"{_span(event.request, event.start, event.stop)}; {where}"


def _load(ledger: Ledger, event: ev.LoadCpuCopy) -> str:
    return f"copy {event.copy} into {_span(event.request, event.start, event.start + ledger.copies[event.copy])}"


def _move(ledger: Ledger, event: ev.Move) -> str:
    source = tokens(event.source, event.source + event.count)
    return f"request {event.request}: KV of {source} to {tokens(event.target, event.target + event.count)}"


_WORDS: dict[type[ev.Event], Callable[[Ledger, Any], str]] = {
    ev.Alloc: lambda ledger, e: _grown(ledger, [(e.request, e.count)]),
    ev.AllocExtend: lambda ledger, e: _grown(ledger, list(e.items)),
    ev.AllocDecode: lambda ledger, e: _grown(ledger, [(request, 1) for request in e.requests]),
    ev.AllocExtendSwaTail: _tail,
    ev.Free: lambda ledger, e: f"{_span(e.request, e.start, ledger.length(e.request))}, both pools",
    ev.FreeSwa: lambda ledger, e: f"{_span(e.request, e.start, e.stop)}: SWA slots given up (window eviction)",
    ev.FreeGroupBegin: lambda ledger, e: "frees wait from here on",
    ev.FreeGroupEnd: lambda ledger, e: "waiting frees take effect" if ledger.group_open else "no group is open",
    ev.SetMapping: lambda ledger, e: f"{_span(e.request, e.start, e.stop)}: fresh SWA slots, mapped in place",
    ev.RegisterMapping: _register,
    ev.Backup: lambda ledger, e: "the allocator's state is saved",
    ev.Restore: lambda ledger, e: "back to the saved state; what was allocated since is gone",
    ev.Clear: lambda ledger, e: "the cache is flushed, every request is gone",
    ev.BeginForward: _batch,
    ev.WriteKv: lambda ledger, e: f"{_layer(ledger, e.layer)}: KV of the batch",
    ev.ReadKv: _read,
    ev.Translate: _translate,
    ev.EndForward: lambda ledger, e: "the forward is over",
    ev.CpuCopy: lambda ledger, e: f"{_span(e.request, e.start, e.stop)} to the CPU as copy {e.copy}",
    ev.LoadCpuCopy: _load,
    ev.Move: _move,
}
"""Event type -> its words, given the books before the event."""
