"""What a tape says of a guard that was taken away."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from staleloc.models.config import Config
from staleloc.sim.audit.play import mutation_worker as proving
from staleloc.sim.core.divergence import Divergence
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts.allocator import events as ev

TAPE = Tape(Config("hybrid", "uncached", 1, 4, 4, ("swa",), 2, False, "float32"), (ev.Alloc(0, 1), ev.Clear()))


def trial(kind: str, found: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a guard of this kind comes to, without which one tape diverges in this way at its first event."""
    verdict = SimpleNamespace(divergence=Divergence(found, "a check", 0, "it"))
    monkeypatch.setattr(proving, "play_one", lambda *_: (TAPE, verdict))
    monkeypatch.setattr(proving._Trial, "_events", lambda *_: ["shrunk"])
    it = object.__new__(proving._Trial)
    it._job, it._change = {"seconds": None, "seed": 0}, {"kind": kind, "tapes": [(2, 0, 7)], "fresh": 0}
    it._target, it._scopes, it._started = None, {0: []}, 0.0
    it._patch = SimpleNamespace(put_in=lambda: None, take_out=lambda: None)  # type: ignore[assignment]
    return it.run()


def test_an_invalidation_is_killed_by_an_answer_that_its_mapping_has_outlived(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what it is there for."""
    told = trial("invalidation", "stale-translation", monkeypatch)
    assert (told["outcome"], told["events"]) == ("killed", ["shrunk"])


def test_an_invalidation_without_which_tapes_only_crash_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The statement is missed, and that is told apart from an answer that outlives its mapping."""
    told = trial("invalidation", "crash", monkeypatch)
    assert (told["outcome"], told["tape"], told["events"]) == ("otherwise", 7, ["alloc"])


def test_any_other_guard_is_killed_by_any_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash says that it is missed."""
    assert trial("mask", "crash", monkeypatch)["outcome"] == "killed"
