"""An event of whole requests: when it applies, the target's calls, what the world takes over, what is simpler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...core.event import Event

__all__ = ["EngineEvent", "fewer", "fewer_requests", "fewer_tokens", "plain_prompt", "shorter_prompts"]


@dataclass(frozen=True)
class EngineEvent(Event):
    """One step of a tape of whole requests."""

    def play(self, step: Any) -> bool:
        """Ask the target, and enter what it answered in the world of `step`, an `EngineStep` of the session's kind.

        Returns False, and does nothing, if the event does not apply now; it is then skipped, on any target and in any
        shrunk tape alike. An event that asks for more than there is notes in ``step.effect`` how it took effect.
        """
        raise NotImplementedError

    def simpler(self) -> Iterator[Event]:
        """Simpler versions of the event, the boldest first."""
        return iter(())


def fewer(event: Event, field: str, *values: int) -> Iterator[Event]:
    """The event with a smaller number in a field: each of these that is at least 1."""
    now = event.arguments()[field]
    for value in dict.fromkeys(values):
        if 1 <= value < now:
            yield event.changed(**{field: value})


def fewer_requests(event: Any) -> Iterator[Event]:
    """The event for one request fewer."""
    if len(event.requests) > 1:
        for i in range(len(event.requests)):
            yield event.changed(requests=event.requests[:i] + event.requests[i + 1 :])


def fewer_tokens(event: Any) -> Iterator[Event]:
    """A proposal for one request fewer, of one token fewer, or of ones only."""
    yield from fewer_requests(event)
    if len(event.tokens) > 1:
        yield event.changed(tokens=event.tokens[:-1])
    plain = (1,) * len(event.tokens)
    if event.tokens != plain:
        yield event.changed(tokens=plain)


def shorter_prompts(event: Any) -> Iterator[Event]:
    """The event with a shorter prompt."""
    length = len(event.tokens)
    for shorter in dict.fromkeys((2, length // 2, length - 1)):
        if 2 <= shorter < length:
            yield event.changed(tokens=event.tokens[:shorter])


def plain_prompt(event: Any) -> Iterator[Event]:
    """The event with a prompt of ones."""
    plain = (1,) * len(event.tokens)
    if event.tokens != plain:
        yield event.changed(tokens=plain)
