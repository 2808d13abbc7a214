"""The worker: one process with one target that answers each request with one or more lines of JSON.

A real engine may crash, hang or leak, and only one release fits in a process. So targets live in workers, and the
campaign gets lines of JSON. Standard output belongs to the protocol; the engine's own output goes to standard error.

Requests, one a line:
- ``{"op": "open", "target": ..., "mutant": ..., "events": ...}``: the last is a file of declared events or null; see
  `handed_on` in `parts.events_file`.
- ``{"op": "run", "level": ..., "features": ..., "together": ..., "checks": ..., "seed": ..., "tapes": [...]}``: one
  answer for each tape. ``place`` tells divergences of one class apart. ``drawn`` tells tapes apart, if a file declares
  events.
- ``{"op": "play", "tape": TEXT}``: ``effect`` is the tape that took effect, if that was a different one; ``cpu`` is the
  processor time in seconds.
- ``{"op": "locate", "tape": TEXT, "divergence": ...}``: ``divergence`` is the same with the place
  that made the state wrong, and with its consequences.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..core.choices import seeded
from ..core.divergence import Divergence
from ..core.tape import Tape, Verdict
from ..core.text import message
from ..parts.check import Unbuilt
from ..parts.drive import play_tape
from ..parts.events_file import read
from ..parts.generate import generate_tape
from ..parts.hooks import declared, fingerprint, watched
from ..parts.legality import find_violation, profile_of
from ..parts.locate import locate
from ..tapes.codec import TapeError, dumps, loads
from ..targets.base import Profile, Scope, Target, TargetError
from ..targets.registry import open_target, parse, select_profiles
from .messages import divergence_from_json, divergence_to_json, profile_to_json
from .process import Channel

__all__ = ["Session", "main", "place", "serve"]


class Session:
    """An opened target and its answers."""

    def __init__(self, request: dict[str, Any]) -> None:
        read(request["events"], request["mark"])
        spec = parse(request["target"])
        self.target: Target = open_target(spec, request["mutant"])
        self.profiles: list[Profile] = select_profiles(self.target.profiles, spec, request["mutant"])

    def opened(self) -> dict[str, Any]:
        """Return the target's profiles, and the test doubles for parts of the engine."""
        replaced = [
            [f"{leaf.module}.{leaf.attribute}", leaf.reason] for leaf in getattr(self.target, "replacements", ())
        ]
        given = [[f"{fake.module}.{fake.name}", fake.reason] for fake in getattr(self.target, "fakes", ())]
        profiles = [profile_to_json(profile) for profile in self.profiles]
        return {"profiles": profiles, "stand_ins": {"replaced": replaced, "given": given}}

    def run(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        scope = Scope.from_json(request)
        profiles = scope.of(self.profiles)
        for index in request["tapes"]:
            with watched():
                tape = generate_tape(seeded(request["seed"], index), profiles, scope.checks)
            profile = profile_of(tape.config, profiles)
            assert profile is not None
            verdict = self._verdict(tape, profile)
            drawn = {"drawn": fingerprint(tape)} if declared() else {}
            yield {"tape": index, "place": place(tape, verdict.divergence), **drawn, **_verdict(verdict)}

    def play(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        started = time.process_time()
        tape = loads(request["tape"])
        with watched():
            profile, reason = find_violation(tape, self.target.profiles, self.target.name)
        if profile is None:
            yield {"illegal": reason}
        else:
            verdict = self._verdict(tape, profile)
            effect = None if verdict.effect is None else dumps(Tape(tape.config, verdict.effect))
            yield {**_verdict(verdict), "effect": effect, "cpu": time.process_time() - started}

    def locate(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        divergence = divergence_from_json(request["divergence"])
        yield {"divergence": divergence_to_json(locate(loads(request["tape"]), self.target, divergence))}

    def _verdict(self, tape: Tape, profile: Profile) -> Verdict:
        try:
            return play_tape(tape, self.target, profile)
        except Unbuilt as error:
            return Verdict(error.divergence, 0, Counter())


def place(tape: Tape, divergence: Divergence | None) -> list[str]:
    """Return what tells this divergence apart from others of its class before anything is shrunk."""
    if divergence is None:
        return []
    events = [event for event in (divergence.event, divergence.stale_at) if event is not None and event >= 0]
    return [tape.config.pool, tape.config.policy, *divergence.during, *(tape.events[event].kind for event in events)]


def _verdict(verdict: Verdict) -> dict[str, Any]:
    found = divergence_to_json(verdict.divergence) if verdict.divergence else None
    return {"divergence": found, "events": verdict.events, "skipped": verdict.skipped, "seen": verdict.seen}


def _answers(session: Session | None, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    assert session is not None
    answer = {"run": session.run, "play": session.play, "locate": session.locate}[request["op"]]
    yield from answer(request)


def serve(channel: Channel, opened: Callable[[dict[str, Any]], Session] = Session) -> None:
    """Answer requests until there are no more; `opened` opens the target that a request names."""
    session: Session | None = None
    for request in channel.requests():
        try:
            if request["op"] == "open":
                session = opened(request)
                channel.answer(session.opened())
            else:
                for answer in _answers(session, request):
                    channel.answer(answer)
        except (TargetError, TapeError) as error:
            channel.answer({"error": str(error)})
        except Exception as error:
            channel.answer({"error": _our_fault(error)})


def _our_fault(error: Exception) -> str:
    """Return the message for an exception that no engine raised: it must not pass for a divergence."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}, line {frame.lineno}, in {frame.name}"
    text = " ".join(message(error).split())[:200]
    what = f"{type(error).__name__}: {text} ({where})" if text else f"{type(error).__name__} ({where})"
    return f"internal error of staleloc: {what}; the target was not tested. Please report it"


def main() -> None:
    """Serve requests on standard input until it closes or the parent ends."""
    serve(Channel(sys.argv[1:]))


if __name__ == "__main__":
    main()
