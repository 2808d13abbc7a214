"""A tape is data: what its file says of its origin runs no code and fetches nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from in_process import SCENARIO, call, refused
from plain_run import LONG

from staleloc.sim.matrix import file
from staleloc.sim.matrix.measurements import Matrix
from staleloc.sim.run.player import Unplayable
from staleloc.sim.tapes.codec import dumps
from staleloc.sim.tapes.scenarios import find_scenario
from staleloc.sim.tapes.schema import tape_schema
from staleloc.sim.targets.mutants import MUTANTS
from staleloc.sim.targets.mutants.transform import builtin_root

EXAMPLES = settings(
    max_examples=1000 if LONG else 60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

SCENARIO_TAPE = find_scenario(SCENARIO).tape  # type: ignore[union-attr]

TARGETS = [
    "sglang==0.5.23", "sglang==0.5.99", "sglang==", "sglang@.", "sglang@evil", "sglang@evil.whl", "sglang@~/sglang",
    "builtin@evil", "builtin@", "builtin@/", "builtin@..", "builtin @evil", " builtin", "BUILTIN", "builtins", "", "-h",
    "--json", "vllm==1", "https://example.com/a.whl", "sglang@https://example.com/a.whl", "builtin\n", "builtin\x1b[2J",
    "builtin\u202e@evil", "sglang==0.5.23; rm -rf /", "$(id)", "../builtin", "builtin@evil:memo", "\ud800",
]  # fmt: skip


class Played(Unplayable):
    """Raised where a tape would be played."""


@pytest.fixture(autouse=True)
def nothing_is_played(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A worker is what runs code, and a release what is fetched; a folder with code lies beside the tape."""

    def played(tape: object, target: str, mutant: str | None, times: int) -> None:
        raise Played(f"would play on {target!r} with {mutant!r}")

    monkeypatch.setattr("staleloc.sim.run.player.replay", played)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil").symlink_to(builtin_root())


def replayed(tmp_path: Path, *words: str, **origin: object) -> tuple[bool, str]:
    """Whether a tape of this origin would be played, and what is said."""
    path = tmp_path / "tape.json"
    path.write_text(dumps(replace(SCENARIO_TAPE, provenance=origin)))
    done = call("replay", str(path), *words)
    assert refused(done)
    return "would play" in done.err, done.err


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mutant", [None, "tail-keeps-former-owner"])
def test_no_tape_chooses_code_that_does_not_come_along(target: str, mutant: str | None, tmp_path: Path) -> None:
    """A folder, a wheel, a release: it needs --target, and the message says so."""
    origin = {"target": target} if mutant is None else {"target": target, "mutant": mutant}
    plays, said = replayed(tmp_path, **origin)
    assert not plays
    assert "--target" in said


@EXAMPLES
@given(target=st.text(max_size=40) | st.text("builtin:@sglan=/.~", max_size=20).map("builtin{}".format))
def test_only_the_embedded_target_is_chosen_by_a_tape(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its name, or by that with a policy, which is looked for among its own."""
    monkeypatch.setattr("staleloc.sim.targets.embedded._policy", str)  # to look takes torch
    plays, _ = replayed(tmp_path, target=target)
    assert plays == bool(re.fullmatch("builtin(:.+)?", target))


@pytest.mark.parametrize("mutant", ["tail-keeps-former-owner", None])
def test_the_embedded_target_and_its_mutants_are(
    mutant: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come along, so a finding on them is replayed by its file alone."""
    assert mutant is None or MUTANTS[mutant].target == "builtin"
    monkeypatch.setattr("staleloc.sim.targets.embedded._policy", str)
    plays, said = replayed(tmp_path, target="builtin:memo", **({} if mutant is None else {"mutant": mutant}))
    assert plays
    assert f"'builtin:memo' with {mutant!r}" in said


@pytest.mark.parametrize("value", [1, None, True, [], ["builtin"], {"name": "builtin"}, 1.5])
def test_a_target_that_is_no_name_chooses_nothing(value: object, tmp_path: Path) -> None:
    """It is not taken for builtin either, as the tape was found on something."""
    assert not replayed(tmp_path, target=value)[0]


def test_what_the_user_names_is_played(tmp_path: Path) -> None:
    """Whatever the tape says."""
    plays, said = replayed(tmp_path, "--target", "builtin", target="builtin@evil", mutant="tail-keeps-former-owner")
    assert plays
    assert "'builtin' with None" in said


def test_nothing_but_the_target_and_the_mutant_is_taken_from_the_origin(tmp_path: Path) -> None:
    """The schema says so."""
    promise = tape_schema()["properties"]["provenance"]["description"]
    assert "nothing else is decided by it" in promise
    other = {"events": {"file": "/etc/passwd", "sha256": "0"}, "seed": 9, "tape": 3, "release": "0.5.23", "class": "x"}
    assert replayed(tmp_path, target="builtin") == replayed(tmp_path, target="builtin", **other)


def test_a_matrix_that_is_read_runs_nothing(small: Matrix, tmp_path: Path) -> None:
    """Its releases are rows of a table; only those that are asked for are measured."""
    path = tmp_path / "m.json"
    file.save(small, path)
    text = json.dumps(json.loads(path.read_text())).replace("sglang==0.5.13", "sglang@evil")
    path.write_text(text)
    done = call("matrix", "--show", "--json", str(path))
    assert (done.code, done.err) == (0, "")
    done = call("matrix", "--json", str(path), "--targets", "sglang@nothing", "--blind", "none")
    assert (done.code, done.err) == (0, "")
    assert list(json.loads(path.read_text())["absent"]) == ["sglang@nothing"]
