"""A tape in words, and the cause of its divergence: events by number and name, and the calls that lead to it.

The code counts events from 0; reports count them from 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ...models.config import EVICTION_POLICIES, SWA, Config
from ..core.divergence import Divergence
from ..core.tape import Tape
from ..parts.allocator import events as ev
from ..parts.allocator.ledger import Ledger

__all__ = ["calling_order", "config_words", "fact", "marks", "sentence", "steps"]

_NUMBER = re.compile(r"\{(\d+)\}")
_KIND = re.compile(r"\[(\d+)\]")

_BY_CLASS = {
    "alias": "[{n}] allocated a slot at event {{{n}}} that was not free",
    "double-free": "[{n}] released a slot at event {{{n}}} that was already free",
    "use-after-free": "[{n}] released a slot at event {{{n}}} that still has an owner",
    "leak": "after [{n}] at event {{{n}}}, free and live slots no longer add up to the pool",
    "out-of-bounds": "[{n}] at event {{{n}}} left the pool's range",
    "misaligned": "[{n}] at event {{{n}}} broke the order of slots in a page",
    "stale-translation": "[{n}] at event {{{n}}} was answered with the translation of other locs",
    "wrong-mapping": "[{n}] at event {{{n}}} left this entry",
    "wrong-content": "[{n}] at event {{{n}}} returned another row than the one written last",
    "crash": "[{n}] at event {{{n}}} keeps every contract of the API, but the target failed",
}
"""Class -> its sentence, for checks that give none."""


def fact(divergence: Divergence) -> str:
    """The difference in one line. An engine's own message is only made printable."""
    if divergence.kind == "crash":
        return "".join(c if c.isprintable() else "\ufffd" for c in divergence.what)[:400]
    return _numbered(divergence.what)


def sentence(divergence: Divergence, tape: Tape) -> str:
    """The cause in one sentence."""
    text = divergence.sentence
    if not text and divergence.event >= 0 and divergence.kind in _BY_CLASS:
        text = _BY_CLASS[divergence.kind].format(n=divergence.event)
    if not text:
        return fact(divergence)
    return _numbered(_KIND.sub(lambda match: tape.events[int(match[1])].kind, text))


def _numbered(text: str) -> str:
    return _NUMBER.sub(lambda match: str(int(match[1]) + 1), text)


def marks(divergence: Divergence) -> dict[int, str]:
    """The relevant events, each with a few words."""
    named: dict[int, str] = {}
    what = divergence.what if divergence.kind != "crash" else ""
    for match in _NUMBER.finditer(what + divergence.sentence):
        named[int(match[1])] = ""
    for row in divergence.rows:
        if row.last_correct is not None:
            named[row.last_correct] = "last correct use"
        if row.stale_at is not None:
            named[row.stale_at] = "became stale"
    if divergence.event >= 0:
        named[divergence.event] = "diverges"
    return named


def calling_order(divergence: Divergence, tape: Tape) -> str | None:
    """For a pool that translates at a forward's first layer: the order of layers and changes in which the engine uses
    the stale translation. None for other findings."""
    if divergence.kind != "stale-translation" or tape.config.pool != "dsv4":
        return None
    begin = _open_forward(tape, divergence.event)
    if begin is None:
        return None
    uses = list(_uses(tape, begin, divergence.event))
    change = divergence.rows[0].stale_at if divergence.rows else None
    if change is None:  # the translation was never right; still, what moved the mapping inside the forward matters
        change = _last_change(tape, begin, divergence.event)
    last = _use(tape, divergence.event)
    if change is not None and change > begin:
        before = [number for number in uses if number < change]
        if before:
            later = "; one that starts at a later layer is" if tape.config.policy == "native" else ""
            return (
                f"the forward of event {begin + 1} starts at layer 0; {_use(tape, before[0])} before the mapping "
                f"changed at event {change + 1} ({tape.events[change].kind}), {last} after it. The engine gets here "
                "when the mapping changes between two layers of one forward. A forward that starts at layer 0 after "
                f"the change translates again and is not affected{later}."
            )
        return (
            f"the forward of event {begin + 1} starts at layer 0 and requested no translation before the mapping "
            f"changed at event {change + 1} ({tape.events[change].kind}); {last}, which is its first use. The "
            "translation is older than the forward, so the start layer of the forward does not matter."
        )
    first = uses[0] if uses else divergence.event
    return (
        f"the forward of event {begin + 1} starts at layer 0; {_use(tape, first)} with a translation "
        f"{_older(tape, begin)}. {_unrefreshed(tape, begin, divergence.event)}"
    )


def _last_change(tape: Tape, begin: int, end: int) -> int | None:
    events: Sequence[Any] = tape.events
    return next((n for n in range(end - 1, begin, -1) if events[n].remaps), None)


def _older(tape: Tape, begin: int) -> str:
    earlier = [n for n, event in enumerate(tape.events[:begin]) if isinstance(event, ev.BeginForward)]
    return f"made for the forward of event {earlier[0] + 1}" if len(earlier) == 1 else "older than it"


def _unrefreshed(tape: Tape, begin: int, event: int) -> str:
    """The reason why the start layer did not refresh the translation."""
    if tape.config.layers[0] != SWA:
        return (
            "Layer 0 is a full-attention layer and translates nothing, so a translation that is refreshed only at the "
            "start layer is never refreshed; a forward whose start layer is an SWA layer is not affected."
        )
    if not any(isinstance(it, ev.WriteKv) for it in tape.events[begin : event + 1]):
        return (
            "The translation was requested before layer 0 was written, which refreshes it; where layer 0 comes first, "
            "the engine is not affected."
        )
    return "Its start layer is an SWA layer and did not refresh the translation, so every forward is affected."


def _open_forward(tape: Tape, event: int) -> int | None:
    """The forward that runs at an event, by the event that began it."""
    for number in range(event, -1, -1):
        kind = type(tape.events[number])
        if kind is ev.EndForward:
            return None
        if kind is ev.BeginForward:
            return number
    return None


def _uses(tape: Tape, begin: int, end: int) -> Iterator[int]:
    """Events in which the running batch's own translation is used."""
    for number in range(begin, end):
        event = tape.events[number]
        if (isinstance(event, ev.WriteKv) and tape.config.layers[event.layer] == SWA) or (
            isinstance(event, ev.Translate) and event.source == "batch"
        ):
            yield number


def _use(tape: Tape, number: int) -> str:
    event = tape.events[number]
    if isinstance(event, ev.WriteKv | ev.ReadKv):
        verb = "written" if isinstance(event, ev.WriteKv) else "read"
        return f"layer {event.layer} was {verb} at event {number + 1}"
    return f"its locs were translated at event {number + 1}"


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
    if config.context_len:
        parts.append(f"context length {config.context_len}")
    if config.host_full_size:
        parts.append(f"host {config.host_full_size} full and {config.host_swa_size} SWA slots, {config.write_policy}")
    if config.eviction_policy != EVICTION_POLICIES[0]:
        parts.append(" ".join((f"eviction {config.eviction_policy}", *map(str, config.priorities))))
    if config.switches:
        parts.append(f"switched: {' and '.join(config.switches)}")
    if config.need_sort:
        parts.append("sorted free lists")
    if "spec" in config.features:
        parts.append(f"speculative {config.spec_version}, {config.spec_steps} steps of {config.spec_topk}")
        parts.append(f"{config.spec_draft_tokens} tokens verified")
    if config.bigram:
        parts.append("keys are bigrams")
    if config.checks:
        parts.append(f"checked for {' and '.join(config.checks)}")
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
