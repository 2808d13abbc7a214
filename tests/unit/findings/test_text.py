"""The parts a report is made of: words for events, numbers for people, names of files, situations in reach."""

from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from staleloc.models.config import SWA, Config
from staleloc.models.situations import SITUATIONS
from staleloc.sim.core.divergence import CLASSES, Divergence
from staleloc.sim.core.tape import Tape
from staleloc.sim.findings.cause import Cause
from staleloc.sim.findings.explain import fact, marks, sentence, steps
from staleloc.sim.findings.files import KeepError, check_file, check_folder
from staleloc.sim.findings.finding import Finding, Origin
from staleloc.sim.findings.saves import Saves
from staleloc.sim.findings.summary import Summary
from staleloc.sim.findings.text import columns, render
from staleloc.sim.parts.allocator import events as ev
from staleloc.sim.parts.allocator.event import tokens
from staleloc.sim.parts.allocator.events import EVENTS, KINDS
from staleloc.sim.parts.situations import possible
from staleloc.sim.tapes.codec import load
from staleloc.sim.tapes.scenarios import find_scenario
from staleloc.sim.tapes.schema import summary_schema
from staleloc.sim.targets.base import Profile

CONFIG = Config(page_size=2, full_size=8, swa_size=8, layers=(SWA,))
TAPE = Tape(CONFIG, (ev.AllocExtend(((0, 2),)), ev.FreeSwa(0, 0, 2), ev.Free(0, 0)))
LEAK = Divergence("leak", "conservation", 2, "full page 1 has no owner and is in no free list")

EVERYTHING = Profile("hybrid", ("memo",), (1, 2), ("float32",), frozenset(KINDS), precomputed=True)


def test_every_event_has_words() -> None:
    """Words of its own, and not just its fields."""
    assert all("say" in {name for base in event.mro()[:-3] for name in vars(base)} for event in EVENTS)


def test_steps_know_how_long_a_request_is() -> None:
    tape = Tape(CONFIG, (ev.AllocExtend(((0, 3),)), ev.AllocDecode((0,)), ev.Free(0, 2)))
    assert steps(tape) == ["request 0 tokens 0–2", "request 0 token 3", "request 0 tokens 2–3, both pools"]  # noqa: RUF001


def test_spans_are_inclusive_for_people() -> None:
    assert [tokens(0, 1), tokens(2, 5), tokens(3, 3)] == ["token 0", "tokens 2–4", "no tokens"]  # noqa: RUF001


def test_events_are_counted_from_one_and_named() -> None:
    divergence = replace(LEAK, sentence="mapped at event {0} by [0], freed at event {2}")
    assert sentence(divergence, TAPE) == "mapped at event 1 by alloc_extend, freed at event 3"
    assert fact(replace(LEAK, what="the row of event {1}")) == "the row of event 2"
    assert marks(divergence) == {0: "", 2: "diverges"}


def test_an_engines_message_is_left_alone_but_printable() -> None:
    divergence = Divergence("crash", "crash", 2, "free raised IndexError: {1} in [2]\x07\n")
    assert fact(divergence) == "free raised IndexError: {1} in [2]\ufffd\ufffd"
    assert marks(divergence) == {2: "diverges"}


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_can_be_reported(kind: str) -> None:
    finding = Finding(Origin("builtin", seed=0, index=0), TAPE, replace(LEAK, kind=kind))
    text = render(finding)
    assert text.startswith(f"{kind} in builtin, hybrid pool (check conservation)\n")
    assert "{" not in text


def test_a_report_shows_the_call_chain_and_the_consequences() -> None:
    """And what else has the same cause, if the campaign says so."""
    found = replace(LEAK, calls=("cache.py:3 Cache.free",), consequences=("leak (locks): node 1 of event {0}",))
    text = render(Finding(Origin("builtin", seed=0, index=0), TAPE, found), cause="2 more minimal tapes of this cause")
    assert "\n  Call chain at which the state became wrong:\n    cache.py:3 Cache.free\n" in text
    assert "\n  Consequences:\n    leak (locks): node 1 of event 1\n" in text
    assert "\n  2 more minimal tapes of this cause\n" in text
    crash = replace(found, kind="crash", consequences=())
    assert "\n  Call chain to the exception:\n" in render(Finding(Origin("builtin", seed=0, index=0), TAPE, crash))


def test_the_summary_groups_findings_by_cause() -> None:
    """The finding with the shortest tape comes first, with the place that went wrong."""
    calls = ("sim/targets/builtin/insertion.py:52 Insertion._overlap",)
    short, long = (
        Finding(Origin("builtin:memo", seed=4, index=index), replace(TAPE, events=events), replace(LEAK, calls=calls))
        for index, events in ((9, TAPE.events), (1, TAPE.events * 2))
    )
    known = replace(summary(long, short), causes=[Cause([long, short], 7, 2)])
    assert "1 cause, 2 distinct findings; 2 of 20 tapes diverged" in known.text()
    assert (
        f"  cause 1: leak, 7 tapes, 2 more ways not shrunk; {calls[0]}\n    tape 9  leak  hybrid  3 events"
        in known.text()
    )
    values = known.to_json()
    jsonschema.validate(values, summary_schema())
    assert [it["cause"] for it in values["divergences"]] == [1, 1]
    assert (values["causes"][0]["place"], values["causes"][0]["shortest"]) == (calls[0], 1)


def test_columns_are_aligned_and_end_where_they_end() -> None:
    assert columns([("a", "bb", "c"), ("aaa", "b", "")], indent="") == ["a    bb  c", "aaa  b"]


def test_the_command_line_can_be_pasted() -> None:
    assert Origin("sglang@/a b", seed=7, index=3).again == "staleloc fuzz --target 'sglang@/a b' --seed 7 --tapes 4"
    assert Origin("builtin", mutant="m", tape="t.json").again == "staleloc replay t.json --target builtin --mutant m"


def test_a_saved_tape_says_where_it_comes_from(tmp_path: Path) -> None:
    finding = Finding(Origin("sglang==0.5.12", "0.5.12", None, 0, 17), TAPE, LEAK)
    path = Saves(tmp_path / "new").keep(finding)
    assert path is not None
    assert path.name == "sglang-0.5.12-seed0-tape17-leak.json"
    saved = load(path)
    assert saved == finding.documented()
    assert saved.provenance is not None
    assert saved.provenance["class"] == "leak"
    assert "mutant" not in saved.provenance


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("sglang@~/src/sglang/python", "sglang-src-sglang-python-seed0-tape1-leak.json"),
        ("builtin:memo", "builtin-memo-seed0-tape1-leak.json"),
        ("sglang@/../..", "sglang-seed0-tape1-leak.json"),
    ],
)
def test_file_names_are_plain(target: str, name: str, tmp_path: Path) -> None:
    path = Saves(tmp_path).keep(Finding(Origin(target, seed=0, index=1), TAPE, LEAK))
    assert path is not None
    assert path.name == name


def test_checking_a_file_leaves_nothing_and_destroys_nothing(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("kept")
    check_file(tmp_path / "old")
    check_file(tmp_path / "new")
    check_folder(tmp_path / "a" / "b")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("old", "kept")]
    with pytest.raises(KeepError, match="cannot be written"):
        check_file(tmp_path / "a" / "new")
    with pytest.raises(KeepError, match="cannot be written"):
        check_folder(tmp_path / "old" / "folder")


def test_everything_is_possible_for_a_target_that_can_everything() -> None:
    assert possible([EVERYTHING]) == list(SITUATIONS)


def test_what_a_target_cannot_do_is_not_missed() -> None:
    one_token = replace(EVERYTHING, page_sizes=(1,), precomputed=False)
    assert set(SITUATIONS) - set(possible([one_token])) == {
        "tail_allocated",
        "tail_over_recycled",
        "partial_page_evicted",
        "precomputed",
    }
    once = replace(EVERYTHING, per_forward=True, policies=("native",), events=frozenset(KINDS) - {"cpu_copy"})
    assert set(SITUATIONS) - set(possible([once])) == {
        "changed_mid_forward",
        "written_after_change",
        "asked_after_change",
        "cache_hit",
        "partial_mask",
        "unfilled_hole",
        "row_skipped",
        "loaded_elsewhere",
    }
    assert possible([one_token, once, EVERYTHING]) == list(SITUATIONS)


def summary(*findings: Finding) -> Summary:
    seen = {"slot_reused": 12, "exhausted": 3}
    return Summary("builtin:memo", None, None, 4, findings, 20, 1000, 0.5, [EVERYTHING], seen, len(findings))


def test_the_summary_keeps_its_schema() -> None:
    finding = Finding(Origin("builtin:memo", seed=4, index=1), TAPE, LEAK)
    for outcome in (summary(), summary(finding)):
        jsonschema.validate(outcome.to_json(), summary_schema())
    assert list(summary().to_json()) == summary_schema()["required"]
    (divergence,) = summary(finding).to_json()["divergences"]
    assert (divergence["event"], divergence["minimal_length"]) == (3, 3)
    assert divergence["sentence"].endswith("after free at event 3, free and live slots no longer add up to the pool")


def test_the_summary_names_what_was_never_seen() -> None:
    text = summary().text()
    assert text.startswith("builtin:memo, seed 4: no divergence\n20 tapes, 1000 events, 2000 events/s, 0.5 s\n")
    assert f"situations: 2 of {len(SITUATIONS)} seen\n  slot_reused  12  exhausted  3" in text
    assert " ".join(text[text.index("never seen") :].split()) == "never seen: " + ", ".join(
        name for name in SITUATIONS if name not in ("slot_reused", "exhausted")
    )


def test_the_summary_tells_known_bugs_from_others() -> None:
    """By the scenario that a finding looks like, and only on a target that has it."""
    known = find_scenario("pr36739-second-group-end")
    assert known is not None
    found = replace(LEAK, kind=known.kind, what="")
    alike = [Finding(Origin(target, seed=4, index=1), known.tape, found) for target in ("sglang==0.5.18", "builtin")]
    text = summary(*alike, Finding(Origin("builtin:memo", seed=4, index=2), TAPE, LEAK)).text()
    assert "3 distinct findings, 1 like a known scenario; 3 of 20 tapes diverged" in text
    assert text.count(known.name) == 1
