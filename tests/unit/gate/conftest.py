"""A repository that is the current folder, and the command that tests it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from checkout import Repository, made
from click.testing import CliRunner

from staleloc.sim.cli.main import cli
from staleloc.sim.gate import play
from staleloc.sim.parts.generate import scopes_of
from staleloc.sim.tapes.scenarios import scenarios


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository with one commit, which is the current folder. Of its scopes the first two are fuzzed, and the older
    scenarios are played."""
    it = made(tmp_path / "repository")
    monkeypatch.chdir(it.root)
    monkeypatch.setattr(play, "scopes_of", lambda *given: scopes_of(*given)[:2])
    monkeypatch.setattr(play, "scenarios", lambda: [it for it in scenarios() if it.name.startswith("pr2")])
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    return it


@pytest.fixture
def ci() -> Callable[..., tuple[int, str]]:
    """Run ``staleloc ci`` on the repository's package; returns the exit code and standard output."""

    def call(*words: str) -> tuple[int, str]:
        arguments = ["ci", "--target", "python/cache", "--workers", "1", *words]
        done = CliRunner().invoke(cli, arguments, standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        return done.return_value, done.stdout

    return call
