"""A corpus grows by tapes that reach new situations, and no run plays a random tape that an earlier one has played."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from checkout import Repository

from staleloc.sim.core.choices import seeded
from staleloc.sim.core.tape import Tape
from staleloc.sim.findings.files import KeepError
from staleloc.sim.gate import corpus as module
from staleloc.sim.gate.corpus import PROGRESS, Corpus, kind_of
from staleloc.sim.parts.generate import generate_tape
from staleloc.sim.run.player import Player
from staleloc.sim.tapes.codec import load
from staleloc.sim.targets.base import Scope

Ci = Callable[..., tuple[int, str]]


def test_the_second_run_replays_the_first_and_goes_on(
    repository: Repository, ci: Ci, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Together the small tapes reach what the random ones did; the second run adds only what is new."""
    monkeypatch.setattr(module, "CANDIDATES", 20)
    assert ci("--corpus", "corpus", "--tapes", "4")[0] == 0
    corpus = Corpus.load(Path("corpus"))
    first = corpus.files()
    scopes = (Scope(), Scope("engine"))
    assert [corpus.start(scope, 0) for scope in scopes] == [4, 4]
    assert corpus.start(Scope(), 1) == 0
    with Player("builtin") as player:
        for scope in scopes:
            random = situations(player, [generate_tape(seeded(0, i), scope.of(player.profiles)) for i in range(4)])
            tapes = [tape for tape in map(load, first) if tape.config.level == scope.level]
            assert situations(player, tapes) >= random
            assert len(tapes) <= 4
    code, said = ci("--corpus", "corpus", "--tapes", "4", "--json", "r.json")
    assert code == 0
    names = [it["name"] for it in json.loads(Path("r.json").read_text())["cases"] if it["group"] == "kept tapes"]
    assert names == [str(path) for path in first]
    assert Corpus.load(Path("corpus")).start(Scope(), 0) == 8
    assert f"{len(first)} silent" in said


def situations(player: Player, tapes: list[Tape]) -> set[str]:
    """What these tapes reach."""
    reached: set[str] = set()
    for tape in tapes:
        assert player.play(tape) is None
        reached |= player.seen.keys()
    return reached


def test_a_tape_that_adds_nothing_is_removed_unless_a_user_put_it_there(tmp_path: Path) -> None:
    """The longest first, and only for a level with the same features."""
    corpus = Corpus(tmp_path)
    with Player("builtin") as player:
        tapes = [generate_tape(seeded(0, i), Scope().of(player.profiles)) for i in range(3)]
    paths = [corpus.add(tape, {name}, "builtin") for tape, name in zip(tapes, "abc", strict=True)]
    for path, names in zip(paths, ("a", "ab", "c"), strict=True):
        corpus.situations[path] = kind_of(load(path).config), frozenset(names)
    theirs = tmp_path / "theirs.json"
    theirs.write_text((paths[0].read_text()).replace('"situations"', '"mine"'), encoding="utf-8")
    corpus.situations[theirs] = kind_of(load(theirs).config), frozenset("c")
    assert set(corpus.merge()) == {paths[0], paths[2]}
    assert corpus.files() == [paths[1], theirs]


@pytest.mark.parametrize("text", ["", "[]", '{"format": "staleloc-corpus", "version": 1, "next": [{"scope": 3}]}'])
def test_a_broken_progress_file_says_what_to_do(tmp_path: Path, text: str) -> None:
    """It is never taken for an empty one."""
    (tmp_path / PROGRESS).write_text(text, encoding="utf-8")
    with pytest.raises(KeepError, match=r"progress\.json cannot be read .*; delete it to begin anew"):
        Corpus.load(tmp_path)
