"""What the audit says of a site follows from what was counted, and says what is missing."""

from __future__ import annotations

import json
from collections import Counter, defaultdict

import pytest

from staleloc.sim.audit.guards import changes_of
from staleloc.sim.audit.play.coverage import UNKNOWN_CACHE, Coverage, FailureGroup, FailureGroups
from staleloc.sim.audit.play.mutation import Proof
from staleloc.sim.audit.report import formats
from staleloc.sim.audit.report.verdicts import Audit, Reasons, Row, reasons_for, rows_of, tried
from staleloc.sim.audit.source.program import Source, read_tree
from staleloc.sim.audit.source.sites import map_of, read_program
from staleloc.sim.core.divergence import Divergence, LocRow
from staleloc.sim.parts.allocator.events import Alloc, Clear
from staleloc.sim.targets.base import Scope
from staleloc.sim.targets.mutants.transform import builtin_root

SOURCE = """
class Pool:
    def __init__(self):
        self.cached = None

    def lookup(self, locs):
        if self.cached is None:
            self.cached = self.full_to_swa_index_mapping[locs]
        return self.cached

    def guarded(self, locs):
        self.full_to_swa_index_mapping[locs] = 0
        self.cached = None

    def bare(self, locs):
        self.full_to_swa_index_mapping[locs] = 0
"""

READING = read_program([Source("pool", "pool.py", SOURCE)])
FOUND = map_of(READING)
CHANGES = [it for it in changes_of(READING, FOUND) if it.kind == "invalidation"]
GUARDED, BARE = 0, 1
NOTHING = Reasons("builtin", True, [])


def reach(**given) -> Coverage:
    """A campaign that exposed both sites."""
    both = {GUARDED: Counter(x=3), BARE: Counter(x=2)}
    exposed = defaultdict(Counter, {GUARDED: Counter({0: 2}), BARE: Counter({0: 2})})
    return Coverage(**{"tapes": 9, "modules": {"pool"}, "reached": both, "exposed": exposed, **given})


def row(number: int, reached: Coverage, outcome: str = "killed") -> Row:
    guards = tried(CHANGES, [Proof(outcome, 4) for _ in CHANGES], NOTHING)
    return rows_of(FOUND, {"pool.py": "pool"}, reached, guards)[number]


def diverging(*tapes: tuple[int, FailureGroup, int]) -> FailureGroups:
    """Tapes that diverge: number, how, and at which event."""
    told = FailureGroups()
    for number, way, event in tapes:
        told.note(way, 0, number, Divergence(way.kind, "a check", event, "a fact"))
    return told


def stale(event: str, *blamed: tuple[int, int], asked: str = "translate") -> FailureGroup:
    """An answer from before an event is served."""
    return FailureGroup("stale-translation", asked, event, blamed)


def diverged(*blamed: tuple[int, int]) -> Coverage:
    """A tape on which a cache serves an answer from before x."""
    return reach(failures=diverging((7, stale("x", *blamed), 3)))


def test_a_guard_that_is_missed_makes_a_site_safe():
    """Exposed, no divergence, and one without the guard."""
    assert (row(GUARDED, reach()).verdict, row(GUARDED, reach()).killed) == ("safe", 1)


@pytest.mark.parametrize(
    ("number", "given", "outcome", "why"),
    [
        (GUARDED, {"modules": set()}, "killed", "its module is not run here"),
        (GUARDED, {"reached": {}}, "killed", "no event reached it"),
        (
            GUARDED,
            {"exposed": defaultdict(Counter)},
            "killed",
            "no live cached translation was requested again afterwards",
        ),
        (GUARDED, {}, "survived", "Pool.guarded without self.cached = None (line 13): survived 4 tapes"),
        (GUARDED, {}, "never needed", "no tape requested the dropped translation again"),
        (GUARDED, {}, "not made", "the statement cannot be removed"),
        (GUARDED, {}, "failed", "the changed target could not be loaded"),
        (GUARDED, {}, "otherwise", "without it tapes diverge, but none with a stale translation"),
        (
            GUARDED,
            {"served": defaultdict(Counter, {GUARDED: Counter({0: 5})})},
            "killed",
            "Pool.cached was requested 5 times after it and still had the old translation, despite its invalidations",
        ),
        (BARE, {}, "killed", "no invalidation on its way; none of 9 tapes shows a translation that outlived it"),
    ],
)
def test_what_a_proof_lacks_is_said(number, given, outcome, why):
    """Without it the site is unproven, never safe."""
    told = row(number, reach(**given), outcome)
    assert told.verdict == "unproven"
    assert why in told.why


def test_a_site_whose_invalidations_were_left_alone_is_neither_safe_nor_told_of():
    """One of several is not enough; a site that a tape shows to be unguarded is told of all the same."""
    rows = rows_of(FOUND, {"pool.py": "pool"}, reach(), [])
    assert (rows[GUARDED].verdict, rows[GUARDED].is_asked) == ("unproven", False)
    assert rows[BARE].is_asked


def test_a_divergence_is_blamed_on_the_site_whose_event_made_the_answer_stale():
    """Served alone proves nothing: another event may be why."""
    divergence = Divergence("stale-translation", "a check", 1, "a fact", rows=(LocRow(1, 2, 3, stale_at=0),))
    events = (Clear(), Alloc(0, 1))
    late, changed = {(BARE, 0): {(0, 1), (7, 9)}}, {0: {BARE, 5}, 7: {GUARDED}}
    assert FailureGroup.of(divergence, events, late, changed) == stale("clear", (BARE, 0), asked="alloc")
    assert row(BARE, diverged((BARE, 0))).verdict == "unguarded"
    assert row(BARE, diverged((GUARDED, 0))).verdict == "unproven"
    assert row(BARE, diverged()).verdict == "unproven"


def test_an_answer_that_nobody_is_known_to_keep_makes_no_site_of_its_event_safe():
    """A closure, say, keeps it: the tape names the event, and every site that was reached in it is in doubt."""
    divergence = Divergence("stale-translation", "a check", 1, "a fact", rows=(LocRow(1, 2, 3, stale_at=0),))
    way = FailureGroup.of(divergence, (Clear(), Alloc(0, 1)), {(BARE, 0): {(7, 9)}}, {0: {BARE, GUARDED}})
    assert way == FailureGroup(
        "stale-translation", "alloc", "clear", (), ((GUARDED, UNKNOWN_CACHE), (BARE, UNKNOWN_CACHE))
    )
    told = row(GUARDED, reach(failures=diverging((7, way, 3))))
    assert told.verdict == "unproven"
    assert told.why.startswith("tape 7 at the allocator level uses a translation from before clear, which reaches it")


def test_a_cache_that_serves_another_answer_in_that_event_is_in_doubt_instead():
    """The keeper is known then, and the site that was passed is another than that of the event."""
    divergence = Divergence("stale-translation", "a check", 1, "a fact", rows=(LocRow(1, 2, 3, stale_at=0),))
    way = FailureGroup.of(divergence, (Clear(), Alloc(0, 1)), {(GUARDED, 0): {(7, 1)}}, {0: {BARE}})
    assert way.doubted == ((GUARDED, 0),)


def test_a_tape_that_diverges_whatever_way_makes_no_site_safe_past_which_an_answer_was_served():
    """A page that two have, say, may come of it; a tape in which nothing was served too late does not."""
    for late, event, verdict in (
        ({(GUARDED, 0): {(0, 1)}}, 0, "unproven"),
        ({}, 0, "safe"),
        ({}, 1, "unproven"),
    ):
        way = FailureGroup.of(
            Divergence("alias", "a check", 1, "a fact"), (Clear(), Alloc(0, 1)), late, {event: {GUARDED}}
        )
        assert row(GUARDED, reach(failures=diverging((7, way, 3)))).verdict == verdict
    assert row(GUARDED, reach(failures=diverging((7, way, 3)))).why == (
        "tape 7 at the allocator level diverges (alias) in alloc, which reaches it"
    )
    way = FailureGroup("alias", "alloc", "", (), ((GUARDED, 0),))
    told = row(GUARDED, reach(failures=diverging((7, way, 3))))
    assert told.why.startswith(
        "tape 7 at the allocator level diverges (alias) after Pool.cached served a translation from"
    )


def test_a_site_that_was_asked_about_is_not_exposed_by_that():
    """To look up a site that nothing was counted of counts nothing."""
    told = reach(exposed=defaultdict(Counter))
    assert not any(told.exposed[site][0] for site in (GUARDED, BARE))
    assert row(GUARDED, told).why == "no live cached translation was requested again afterwards"


def audit(reached: Coverage) -> Audit:
    proof = Proof("killed", 4, 0.5, Scope(), 1, Divergence("alias", "alias", 1, "it"), ("alloc", "free"))
    guards = tried(CHANGES, [proof for _ in CHANGES], NOTHING)
    rows = rows_of(FOUND, {"pool.py": "pool"}, reached, guards)
    return Audit("builtin", None, FOUND, reached, tuple(guards), rows)


def test_the_table_has_a_line_a_site_and_a_reason_for_each_that_is_not_safe():
    """And says which tape shows it, and which cache served it."""
    told = formats.to_text(audit(diverged((BARE, 0))))
    assert "pool.py:12  Pool.guarded  write  3        2        0       1 of 1  safe       alloc, free (0.5 s)" in told
    assert "pool.py:16  Pool.bare     write  2        2        0       none    unguarded" in told
    assert "a stale translation is served by Pool.cached (tape 7 at the allocator level)" in " ".join(told.split())
    assert "Pool.guarded without self.cached = None: killed after 4 tapes by alloc, free (0.5 s): alias" in told


def test_a_tape_that_no_site_explains_is_counted():
    """A divergence is never passed over."""
    told = formats.to_text(audit(reach(failures=diverging((7, FailureGroup("leak", "free", "", ()), 3)))))
    assert "1 more tapes diverge, which no site explains: see staleloc fuzz (in free 1)" in told


def test_annotations_are_escaped_for_github():
    """One line a site that is not safe, an error if it is unguarded; no text ends a line or a property early."""
    lines = formats.to_github(audit(diverged((BARE, 0))), "a,b:c/")
    assert lines == [
        "::error file=a%2Cb%3Ac/pool.py,line=16,title=staleloc: unguarded::Pool.bare changes the mapping: a stale "
        "translation is served by Pool.cached (tape 7 at the allocator level)"
    ]


def test_the_records_are_json_and_name_every_site():
    """JSON has all that was found; SARIF a result for each site that is not safe, with its place in the repository."""
    it = audit(diverged((BARE, 0)))
    told = json.loads(json.dumps(formats.to_json(it)))
    assert [site["verdict"] for site in told["sites"] if "verdict" in site] == ["safe", "unguarded"]
    assert told["guards"][0]["outcome"] == "killed"
    log = json.loads(json.dumps(formats.to_sarif(it, "python/")))
    (result,) = log["runs"][0]["results"]
    assert result["level"] == "error"
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("python/pool.py", 16)


@pytest.mark.parametrize(
    ("outcome", "sort", "stands"),
    [
        ("survived", "equivalent", "known"),
        ("survived", "not driven", "not driven"),
        ("survived", "gap", "unnoticed"),
        ("never needed", "equivalent", "untried"),
        ("never needed", "not driven", "not driven"),
        ("never needed", "gap", "untried"),
        ("killed", "equivalent", "killed"),
        ("otherwise", "gap", "killed"),
    ],
)
def test_what_is_known_of_a_guard_decides_how_it_stands(outcome, sort, stands):
    """A reason on file explains what was seen, and is stale if a tape shows that it is not so."""
    reasons = Reasons("it", True, [{"guard": CHANGES[0].name, "is": sort, "why": "the reason"}])
    (it,) = tried(CHANGES, [Proof(outcome, 4)], reasons)
    missed = outcome in ("killed", "otherwise")
    assert (it.stands, it.is_stale) == (stands, missed)
    (it,) = tried(CHANGES, [Proof(outcome, 4)], Reasons("a release", False, [vars_of(reasons)]))
    assert it.stands == ("killed" if missed else "unnoticed" if outcome == "survived" else "untried")
    assert not it.is_stale
    assert it.reason is None or it.reason.why == "known of a release: the reason"


def vars_of(reasons: Reasons) -> dict[str, str]:
    """The entry of which these reasons were made."""
    ((guard, reason),) = reasons.guards.items()
    return {"guard": guard, "is": reason.sort, "why": reason.why}


def test_what_is_said_of_a_place_holds_for_what_no_tape_reached():
    """A tape that comes there shows that it does not hold."""
    reasons = Reasons("it", True, [{"place": "pool.py:Pool.*", "is": "not driven", "why": "the reason"}])
    assert [it.stands for it in tried(CHANGES, [Proof("never needed")], reasons)] == ["not driven"]
    assert [it.stands for it in tried(CHANGES, [Proof("survived", 4)], reasons)] == ["unnoticed"]


def test_every_known_equivalent_is_a_guard_that_is_there():
    """An entry for what the source no longer has would hide a new guard of that name."""
    reading = read_program(read_tree(builtin_root(), ""))
    known = reasons_for("builtin")
    assert known.guards.keys() <= {change.name for change in changes_of(reading, map_of(reading))}
    gaps = {name for name, it in known.guards.items() if it.sort != "equivalent"}
    assert {known.guards[name].sort for name in gaps} == {"gap"}
    assert all(name.startswith("HostNode._is_missing: ") for name in gaps), "every other survivor is an equivalent"
    assert not known.places


def test_reasons_are_of_a_target_or_of_its_nearest():
    """What was read on one release is a hint for another, and says nothing of a changed copy of our own."""
    assert reasons_for("builtin:uncached").guards == reasons_for("builtin").guards
    assert reasons_for("sglang==0.5.23").is_its_own
    assert reasons_for("sglang==0.5.12").subject == "sglang==0.5.23"
    assert not reasons_for("sglang==0.5.12").is_its_own
    assert not reasons_for("sglang==0.5.12").unnoticeable
    assert not reasons_for(f"builtin@{builtin_root()}").guards
