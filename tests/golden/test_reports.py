"""The text of a report, for real divergences of mutants and for made-up ones that mutants do not reach."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from staleloc.models.config import FULL, SWA, Config
from staleloc.sim.core.divergence import Divergence, LocRow
from staleloc.sim.core.tape import Tape
from staleloc.sim.findings.finding import Finding, Origin
from staleloc.sim.findings.text import render
from staleloc.sim.parts.allocator import events as ev
from staleloc.sim.parts.drive import drive, drive_engine
from staleloc.sim.parts.legality import find_violation
from staleloc.sim.tapes.codec import load
from staleloc.sim.tapes.shrink import Shrunk
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import load_builtin
from staleloc.sim.targets.scope import Scope

Golden = Callable[[str, str], None]

HYBRID = Config(policy="memo", page_size=2, full_size=8, swa_size=8, layers=(SWA,), window=4)
DSV4 = Config(pool="dsv4", policy="first_layer", page_size=4, full_size=8, swa_size=8, layers=(SWA, SWA), window=4)

BATCH = ev.BeginForward(((0, 0, 1),))

REAL = {
    "memo-drop-invalidate-register-mapping": (
        HYBRID,
        ev.AllocExtend(((0, 2),)),
        BATCH,
        ev.WriteKv(0),
        ev.RegisterMapping(0, 0, 2),
        ev.Translate("batch", 0, 0, 1),
    ),
    "memo-key-without-numel": (
        HYBRID,
        ev.AllocExtend(((0, 2),)),
        ev.BeginForward(((0, 0, 2),), "reused"),
        ev.Translate("batch", 0, 0, 2),
        ev.Translate("batch", 0, 0, 1),
    ),
    "side-channel-keeps-previous": (
        replace(HYBRID, policy="side_channel"),
        ev.AllocExtend(((0, 1), (1, 1))),
        replace(BATCH, precomputed=True),
        ev.EndForward(),
        ev.BeginForward(((1, 0, 1),), "view", 16),
        ev.WriteKv(0),
    ),
    "first-layer-drop-invalidate-set-mapping": (
        DSV4,
        ev.AllocExtend(((0, 4),)),
        ev.FreeSwa(0, 0, 4),
        BATCH,
        ev.WriteKv(0),
        ev.SetMapping(0, 0, 4),
        ev.WriteKv(1),
    ),
    "first-layer-start-layer-only": (
        replace(DSV4, layers=(FULL, SWA)),
        ev.AllocExtend(((0, 1), (1, 1))),
        BATCH,
        ev.WriteKv(0),
        ev.WriteKv(1),
        ev.EndForward(),
        ev.BeginForward(((1, 0, 1),)),
        ev.WriteKv(0),
        ev.WriteKv(1),
    ),
    "first-layer-drop-invalidate-begin-forward": (
        DSV4,
        ev.AllocExtend(((0, 1), (1, 1))),
        BATCH,
        ev.WriteKv(0),
        ev.EndForward(),
        ev.BeginForward(((1, 0, 1),)),
        ev.Translate("batch", 0, 0, 1),
    ),
    "tail-keeps-former-owner": (
        replace(HYBRID, policy="uncached"),
        ev.Backup(),
        ev.AllocExtend(((0, 4),)),
        ev.Restore(),
        ev.AllocExtendSwaTail(1, 4, 2),
    ),
    "free-repeats-page": (
        HYBRID,
        ev.AllocExtend(((0, 2),)),
        ev.Free(0, 0),
    ),
    "group-resolves-late": (
        replace(HYBRID, page_size=1),
        ev.Alloc(0, 1),
        ev.FreeGroupBegin(),
        ev.FreeSwa(0, 0, 1),
        ev.SetMapping(0, 0, 1),
        ev.FreeSwa(0, 0, 1),
        ev.FreeGroupEnd(),
    ),
    "extend-runs-past-page": (
        HYBRID,
        ev.AllocExtend(((0, 2), (1, 1))),
        ev.AllocExtend(((0, 1),)),
    ),
    "cpu-copy-without-mask": (
        HYBRID,
        ev.AllocExtendSwaTail(0, 6, 4),
        BATCH,
        ev.WriteKv(0),
        ev.CpuCopy(1, 0, 0, 1),
        ev.LoadCpuCopy(1, 0, 2),
    ),
    "move-forgets-values": (
        HYBRID,
        ev.AllocExtend(((0, 2),)),
        BATCH,
        ev.WriteKv(0),
        ev.Move(0, 1, 0, 1),
    ),
}
"""Mutant -> a cache, and events that show the mutant there."""


@pytest.mark.parametrize("mutant", REAL)
def test_real(mutant: str, golden: Golden) -> None:
    config, *events = REAL[mutant]
    tape = Tape(config, tuple(events))
    target = load_builtin(MUTANTS[mutant])
    profile, reason = find_violation(tape, target.profiles)
    assert profile is not None, reason
    divergence = drive(tape, target, profile).divergence
    assert divergence is not None
    shrunk = Shrunk(tape, divergence, 128, 97, True)
    finding = Finding(Origin("builtin", None, mutant, 0, 17), tape, divergence, shrunk)
    golden(mutant, render(finding, f"staleloc-tapes/{mutant}.json"))


ENGINE = Path(__file__).parents[1] / "unit" / "parts" / "engine" / "tapes"
"""Shrunk engine-level tapes, each with the mutant that it shows."""


@pytest.mark.parametrize(
    "name",
    [
        "locks-leak-checkpoint-keeps-old-lock",
        "owners-alias-load-back-commits-first-chunk",
        "owners-use-after-free-request-frees-shared",
        "races-race-load-back-drops-pin",
        "refusal-leak-prefill-estimates-room",
        "rows-stale-translation-forward-keeps-metadata",
        "values-stale-translation-split-swaps-swa",
    ],
)
def test_engine(name: str, golden: Golden) -> None:
    """With the state that it is about: who is involved, with which slots, and a mark where they part."""
    tape = load(ENGINE / f"{name}.json")
    assert tape.provenance is not None
    mutant = str(tape.provenance["mutant"])
    divergence = drive_engine(tape, load_builtin(MUTANTS[mutant])).divergence
    assert divergence is not None
    bare = replace(tape, provenance=None)
    shrunk = Shrunk(bare, divergence, 128, 97, True)
    origin = Origin("builtin", None, mutant, 0, 17, scope=Scope("engine"))
    golden(name, render(Finding(origin, bare, divergence, shrunk), f"staleloc-tapes/{mutant}.json"))


TAPE = Tape(
    replace(HYBRID, policy="native", need_sort=True, layers=(FULL, SWA)),
    (
        ev.AllocExtend(((0, 2), (1, 5))),
        ev.AllocExtend(((0, 9),)),
        ev.AllocDecode((0, 1)),
        ev.AllocExtendSwaTail(2, 2, 0),
        ev.BeginForward(((0, 0, 2), (1, 4, 5)), "view", 3, True),
        ev.WriteKv(0),
        ev.WriteKv(1),
        ev.ReadKv(0),
        ev.ReadKv(1),
        ev.Translate("batch", 0, 1, 3),
        ev.Translate("padded", 1, 0, 2),
        ev.Translate("view", 1, 0, 1),
        ev.EndForward(),
        ev.FreeGroupEnd(),
        ev.RegisterMapping(0, 0, 0),
        ev.Clear(),
    ),
)
"""Every way a step can read."""

MADE_UP = {
    "every-step": Divergence("leak", "conservation", 15, "SWA page 2 has no owner and is in no free list"),
    "crash-with-brackets": Divergence(
        "crash", "crash", 6, "write_kv raised RuntimeError: shape [2, 1] is not [1], index {3}\x1b[31m in [3]"
    ),
    "hang": Divergence("hang", "hang", -1, "the target gave no answer for 3 s"),
    "out-of-bounds": Divergence("out-of-bounds", "bounds", 0, "full loc 99 was allocated; the pool's slots are 2 to 9"),
    "many-locs": Divergence(
        "stale-translation",
        "translation",
        9,
        "full loc 2 translates to 2, expected 8 (9 locs differ)",
        "translated at event {6}, mapping of full loc 2 changed from 2 to 8 at event {7} by [7], "
        "and the old translation was used at event {9}",
        tuple(LocRow(loc, loc + 6, loc, 7, 6 if loc % 2 else None) for loc in range(2, 10)),
    ),
}


@pytest.mark.parametrize("name", MADE_UP)
def test_made_up(name: str, golden: Golden) -> None:
    finding = Finding(Origin("sglang@~/my checkout", tape="a tape.json"), TAPE, MADE_UP[name])
    golden(name, render(finding))


def test_time_is_all_that_differs() -> None:
    tape = Tape(HYBRID, (ev.AllocExtend(((0, 2),)), ev.Free(0, 0)))
    divergence = Divergence("double-free", "ownership", 1, "full page 1 is in the free list more than once")
    finding = Finding(Origin("builtin", seed=3, index=4), tape, divergence, Shrunk(tape, divergence, 64, 9, False))
    timed = render(finding, seconds=0.649)
    assert timed.replace(", 0.6 s", "") == render(finding)
    assert "shrunk 64 → 2 events (9 candidates, 0.6 s; not minimal" in timed
