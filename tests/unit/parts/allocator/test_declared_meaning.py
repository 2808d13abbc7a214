"""What a declared event means in the model: each word of it, against calls that keep it and calls that do not."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from staleloc.models.config import SWA, Config
from staleloc.sim.core.tape import Tape
from staleloc.sim.parts import events_file, hooks
from staleloc.sim.parts.allocator import events as ev
from staleloc.sim.parts.drive import drive
from staleloc.sim.targets.builtin.target import BuiltinTarget

Played = Callable[..., str]

FILE = """
import torch
from staleloc.sim.declared import Declared


class Own(Declared):
    "does it"

    kind = "own"

    def call(self, cache):
        a, pool, table = cache.allocator, cache.pool, cache.allocator.full_to_swa_index_mapping
        rows = pool.buffers_of["swa"]
        {call}
        a.policy.invalidate()

    def apply(self, model):
        {apply}
"""

MOVE = """
# The page of SWA slots 2 and 3 moves to 6 and 7.
for part in rows:
    part[:, 6:8] = part[:, 2:4]
table[table == 2] = 6
table[table == 3] = 7
a.swa.restore(([page for page in a.swa.free_pages() if page != 3] + [1], []))
"""

SWAP = """
# The pages of SWA slots 2 and 3, and 4 and 5, change places.
for part in rows:
    part[:, 2:6] = part[:, [4, 5, 2, 3]]
table[:-1] = torch.tensor([0, 1, 4, 5, 2, 3, 6, 7, 8, 9])[table[:-1]]
"""

FRESH = "a.set_mapping([2, 3], a.take_swa([2, 3]))"

CONFIG = Config(policy="memo", page_size=2, full_size=8, swa_size=8, layers=(SWA, SWA), window=4)

WRITTEN = (
    ev.AllocExtend(((0, 2),)),
    ev.AllocExtend(((1, 1),)),
    ev.BeginForward(((0, 0, 2), (1, 0, 1))),
    ev.WriteKv(0),
)


@pytest.fixture
def played(tmp_path: Path) -> Iterator[Played]:
    """``class (check)`` of the divergence after such a call, which means this; ``""`` if there is none."""

    def play(call: str, apply: str = "model.repack()", before: tuple[ev.Event, ...] = WRITTEN) -> str:
        path = tmp_path / "own.py"
        inside = textwrap.indent(textwrap.dedent(call).strip(), " " * 8).strip()
        path.write_text(FILE.format(call=inside, apply=apply), encoding="utf-8")
        events_file.load(str(path))
        own = hooks.declared()["own"]()
        after = (ev.WriteKv(1), ev.ReadKv(0), ev.ReadKv(1), ev.Translate("batch", 0, 0, 3), ev.AllocExtend(((2, 4),)))
        if not any(isinstance(event, ev.BeginForward) for event in before):
            after = after[-1:]
        verdict = drive(Tape(CONFIG, (*before, own, *after)), BuiltinTarget(), BuiltinTarget.profiles[0])
        found = verdict.divergence
        assert found is None or found.event >= len(before)
        return f"{found.kind} ({found.check})" if found is not None else ""

    yield play
    events_file.load(None)


@pytest.mark.parametrize("call", ["pass", MOVE, SWAP, MOVE.replace("[1]", "[2]") + SWAP])
def test_a_pool_that_is_packed_right_is_silent(played: Played, call: str) -> None:
    """Pages may go to free ones and to each other's, all at once, or stay."""
    assert played(call) == ""


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (MOVE.replace("table[table == 3] = 7", ""), "alias (alias)"),  # a page is torn
        (MOVE.replace("= 7", "= 0"), "wrong-mapping (mapping)"),  # a live token has lost its slot
        ("table[table == 4] = 2", "alias (alias)"),  # two tokens on one slot
        ("table[table == 2] = 3\ntable[2] = 3", "misaligned (bounds)"),  # not at its place in the page
        ("table[table == 4] = 40", "out-of-bounds (bounds)"),  # not in the pool
        (MOVE.replace("part[:, 6:8] = part[:, 2:4]", "pass"), "wrong-content (contents)"),  # rows stayed
        (
            MOVE.replace("part[:, 6:8]", "part[:1, 6:8]").replace("part[:, 2:4]", "part[:1, 2:4]"),
            "",
        ),  # as yet unwritten
        (MOVE.replace("if page != 3", ""), "use-after-free (ownership)"),  # its new page is still free
        (MOVE.replace("+ [1]", ""), "leak (conservation)"),  # its old page is lost
        (MOVE.replace("+ [1]", "+ [1, 1]"), "double-free (ownership)"),
        ("table[8] = 3", "wrong-mapping (mapping)"),  # a loc that nobody has was mapped
        ("rows[0][0, 4] = 0", "wrong-content (contents)"),  # the row of a token that did not move
    ],
)
def test_a_pool_that_is_packed_wrong_is_seen_at_once(played: Played, call: str, found: str) -> None:
    """Each thing that can go wrong while slots move, by the check that is for it."""
    assert played(call) == found


def test_rows_of_slots_that_nobody_has_are_the_targets_business(played: Played) -> None:
    """It may clear what it left, or not."""
    assert played(MOVE + "for part in rows:\n    part[:, 2:4] = 0") == ""


@pytest.mark.parametrize(
    ("apply", "call", "found"),
    [
        ("model.free_swa(0, 0, 2)", "a.free_swa([2, 3])", ""),
        ("model.free_swa(0, 0, 2)", "pass", "wrong-mapping (mapping)"),
        ("model.free_swa(0, 0, 2); model.set_mapping(0, 0, 2)", f"a.free_swa([2, 3]); {FRESH}", ""),
        ("model.register_mapping(0, 0, 2)", f"{FRESH}; a.release_swa([2])", ""),
        ("model.register_mapping(0, 0, 2)", FRESH, "leak (conservation)"),
        ("model.free(1, 0)", "a.free([4])", ""),
        ("model.free(1, 0)", "a.free_swa([4])", "leak (conservation)"),
        ("pass", "pass", ""),
        ("pass", "table[4] = 0", "wrong-mapping (mapping)"),
    ],
)
def test_every_word_is_held_against_the_target(played: Played, apply: str, call: str, found: str) -> None:
    """What an event is said to mean is what must have happened."""
    assert played(call, apply, WRITTEN[:2]) == found


def test_no_invalidation_is_a_stale_translation(tmp_path: Path, played: Played) -> None:
    """The answer from before the pool was packed is served at the next layer, and the event is named."""
    played(MOVE)
    path = tmp_path / "own.py"
    path.write_text(path.read_text().replace("a.policy.invalidate()", ""), encoding="utf-8")
    events_file.load(str(path))
    own = hooks.declared()["own"]()
    verdict = drive(Tape(CONFIG, (*WRITTEN, own, ev.WriteKv(1))), BuiltinTarget(), BuiltinTarget.profiles[0])
    found = verdict.divergence
    assert found is not None
    assert (found.kind, found.stale_at) == ("stale-translation", len(WRITTEN))
    assert "by [4], and the old translation was used at event {5}" in found.sentence
