"""``staleloc explain``: what is recorded of symptoms, the ranking, and the answer."""

from __future__ import annotations

import json
import shlex
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path

import click
import pytest
import warm

from staleloc.sim.cli.main import fuzz
from staleloc.sim.core.divergence import CLASSES
from staleloc.sim.symptoms.record import record
from staleloc.sim.symptoms.report import explain
from staleloc.sim.symptoms.search import Server, search, symptoms_of
from staleloc.sim.tapes.scenarios import Scenario, find_scenario, scenarios

ROOT = Path(__file__).parents[3]

Run = Callable[..., subprocess.CompletedProcess[str]]

NEWEST = "sglang==0.5.23"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command in an empty folder."""

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return warm.run(["-m", "staleloc.sim", *words], tmp_path)

    return call


def names(text: str, server: Server = Server()) -> list[str]:  # noqa: B008 - frozen
    """The scenarios that match, the best first."""
    return [it.scenario.name for it in search(text, server)]


def test_the_record_names_what_there_is() -> None:
    """Scenarios and classes exist, campaigns take the options, and parts of messages are written as they are sought."""
    known = {it.name for it in scenarios()}
    for symptom in record().symptoms:
        assert {*symptom.scenarios} <= known, symptom.name
        assert {*symptom.kinds} <= CLASSES.keys()
        assert all(it == " ".join(it.lower().split()) for it in symptom.says)
        for way in symptom.ways:
            fuzz.make_context("fuzz", list(way), parent=click.Context(click.Group()))


def test_the_releases_are_those_of_the_matrix() -> None:
    """The package has no docs/matrix.json, so it holds a copy of what the tapes show."""
    matrix = json.loads((ROOT / "docs" / "matrix.json").read_text(encoding="utf-8"))
    shown = {
        it.name: [
            release
            for release in matrix["releases"]
            if matrix["replays"].get(release, {}).get(it.name, {}).get("verdict") == "diverges"
        ]
        for it in scenarios()
    }
    assert record().shown == shown
    assert list(record().drafts) == sorted(it.stem for it in (ROOT / "docs" / "reports").glob("*.md"))


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda it: it.name)
def test_a_scenario_is_found_by_its_own_message(scenario: Scenario) -> None:
    """And by its name or number; on a release that shows it, it is one of the first few."""
    for said in scenario.shows:
        found = names(said.replace("#", "12"), Server(scenario.diverges[-1]))
        assert scenario.name in found[:6]
    assert names(f"is this {scenario.name}?")[0] == scenario.name


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("pool memory leak detected", "pr27779-partial-page-eviction"),
        ("AssertionError: new_prefix_len=12, len(new_indices)=0, page_aligned_len=16",
         "unsent-branch-of-an-aborted-request"),
        ("KV cache is full! Bug in memory estimation. available=12", "pr29662-evicts-full-tokens-only"),
        ("SWA segment release hit lock_ref=0 on node 17", "pr29471-resumed-request-without-lock"),
        ("TypeError: object of type 'NoneType' has no len()", "pr26728-load-back-drops-its-source"),
        ("node 4 pinned by load-back 7, new anchor 9", "pr35931-second-load-back"),
        ("Out of memory even after retracting all other requests in the decode batch", "unsent-last-token-in-flight"),
        ("scheduler hangs in eviction with write_back", "pr28614-write-back-without-room"),
        ("see PR 36848", "pr36848-ack-takes-another-lock"),
    ],
)  # fmt: skip
def test_a_message_of_a_server_finds_its_bug(text: str, first: str) -> None:
    """As it is in a log, with other numbers."""
    assert names(text)[0] == first


def test_what_nothing_explains_matches_nothing() -> None:
    """Words that all scenarios have are no match."""
    assert names("the server returned an error for a request") == []
    assert names("CUDA driver version is insufficient") == []
    assert symptoms_of("NCCL timeout") == []


def test_the_release_comes_first_and_then_the_flags() -> None:
    """A scenario of another release is listed behind, and so is one that takes what the server does not have."""
    everywhere, newest = names("KV cache is full!"), names("KV cache is full!", Server("sglang==0.5.13"))
    assert sorted(everywhere) == sorted(newest)
    assert newest[0] == "pr33794-tail-charged-in-tokens"
    text = "new_prefix_len=4"
    assert names(text, Server("sglang==0.5.22", frozenset({"spec"})))[0] == "unsent-window-of-a-pair-key"
    assert names(text, Server("sglang==0.5.22", frozenset({"disagg"})))[0] == "unsent-branch-of-an-aborted-request"
    assert names(text, Server("sglang==0.5.20", frozenset()))[0] == "unsent-window-off-the-page"


def test_the_answer_says_where_and_what_next() -> None:
    """The report, the releases in ranges, a command that plays it, and campaigns of this kind of symptom."""
    text, found = explain("KV cache is full!", NEWEST, ["--features", "disagg"], Server(NEWEST), 1)
    scenario = find_scenario("pr29662-evicts-full-tokens-only")
    assert found
    assert scenario is not None
    assert text.splitlines()[3:] == [
        "3 scenarios look like it, 1 of them on sglang==0.5.23",
        "",
        "1. pr29662-evicts-full-tokens-only (over-admission; decode preallocation)",
        "   matches: its message; a decode node whose budget is wrong",
        "   report: SGLang PR 29662, draft report docs/reports/pr29662-evicts-full-tokens-only.md in the repository",
        *textwrap.wrap(scenario.mechanism, 118, initial_indent="   ", subsequent_indent="     "),
        "   shows on: 0.5.19 to 0.5.23",
        "   try: staleloc replay pr29662-evicts-full-tokens-only --target sglang==0.5.23 --repro repro.py",
        "",
        "2 more; --limit 3 lists all",
        "",
        "next:",
        "  staleloc matrix --targets sglang==0.5.23 --blind none   # replay every scenario on it",
        "  staleloc fuzz --target sglang==0.5.23 --features disagg --seconds 300",
    ]


def test_no_match_says_what_to_try(run: Run) -> None:
    """In plain words, and with exit code 1; a match ends with 0, and the flags of a server become a campaign."""
    nothing = run("explain", "blue screen")
    assert (nothing.returncode, nothing.stdout.splitlines()[0].startswith("no scenario looks like it; give a")) == (
        1,
        True,
    )
    assert "staleloc fuzz --target sglang==0.5.23 --level engine --seconds 300" in nothing.stdout
    flags = "--page-size 64 --speculative-algorithm EAGLE"
    found = run("explain", "memory leak detected", "--target", "sglang==0.5.12", "--server-args", flags)
    assert found.returncode == 0
    campaign = "--level engine --features spec --config page_size=64,spec_version=v2,bigram=on"
    assert f"  staleloc fuzz --target sglang==0.5.12 {campaign} --seconds 300" in found.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((" ",), "SYMPTOM is empty; give a message, such as 'pool memory leak detected'"),
        (("leak", "--target", "builtin"), "nothing is recorded of builtin; give a release, such as --target sglang=="),
        (("leak", "--target", "vllm"), "unknown target 'vllm'"),
        (("leak", "--server-args", "--page-size x"), "--page-size takes a whole number"),
    ],
)
def test_a_wrong_question_is_one_line(run: Run, words: tuple[str, ...], said: str) -> None:
    """With exit code 2."""
    failed = run("explain", *words)
    assert (failed.returncode, said in failed.stderr, failed.stderr.count("\n")) == (2, True, 1)


def test_the_commands_that_it_prints_parse() -> None:
    """Every campaign of every symptom, on the newest release."""
    for symptom in record().symptoms:
        text, _ = explain(symptom.says[0], NEWEST, [], Server(NEWEST), 1)
        for line in text.splitlines():
            if line.startswith("  staleloc fuzz"):
                fuzz.make_context("fuzz", shlex.split(line)[2:], parent=click.Context(click.Group()))
