"""Plays a gate's tapes: scenarios and kept tapes first, then random tapes of each scope, within one time limit.

A finding that nothing known explains is shrunk before any other. Its minimal tape decides whether it is new.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..core.choices import seeded
from ..core.divergence import Divergence
from ..core.tape import Tape
from ..findings.finding import Finding, Origin
from ..findings.saves import Saves
from ..findings.search import Shrinker
from ..matrix.measure import replay
from ..matrix.measurements import Replayed
from ..parts.generate import generate_tape, scopes_of
from ..run.campaign import Budget, Campaign, Found, Results
from ..run.player import Player, Unplayable, WorkerLost, adapt
from ..run.pool import WorkerPool
from ..run.process import ANSWER_SECONDS
from ..run.progress import Progress
from ..run.worker import place
from ..tapes.codec import TapeError, load
from ..tapes.scenarios import Scenario, plain, scenarios
from ..targets.base import Pins, Profile, Scope, TargetError, shown_pins
from ..targets.pins import no_scope
from .accepted import Entry
from .bases import Bases
from .clock import Clock
from .corpus import Corpus, Kind, kind_of, minimized
from .known import BaseTarget, Candidate, Known
from .outcome import KEPT, SCENARIOS, Case, GateResult, Played

__all__ = ["Gate", "GatePlan"]

FUZZ_PART = 0.6
"""Part of the time left that a round plays random tapes. The rest shrinks what they find; the next round gets what was
not needed."""

LEAST_SECONDS = 2.0
"""Time left with which no further round begins."""

SHRINK_SECONDS = 6.0
"""Least time for one shrink while there is any: shrinks that all end early show nothing well."""

CHUNK = 4
"""Tapes that a worker takes at a time: a few seconds on a busy machine."""

GROW_PART = 0.5
"""Part of the time left after a round that makes tapes for the corpus small."""

MAX_ALIKE = 3
"""New findings of one class and check that are shrunk. A change that breaks more fails the gate all the same."""

EXAMPLES = 4
"""Diverging tapes of one kind that are compared with the base. One of them may be a new bug in the disguise of a known
one."""

ANSWER_PART = 0.05
"""Part of the limit that a single tape may take, if that is less than usual."""


@dataclass(frozen=True)
class GatePlan:
    """What is played.

    Attributes:
        tapes: random tapes of each scope; None for as many as the time allows.
        kept: files of kept tapes.
        minimal: whether known findings are shrunk too.
        scope: the level and features of random tapes; None for all that the target has.
        pins: fields of the config that have one value in every random tape, if `scope` is None.
    """

    target: str
    release: str | None
    seed: int
    tapes: int | None
    workers: int
    kept: Sequence[Path] = ()
    minimal: bool = False
    scope: Scope | None = None
    pins: Pins = ()


@dataclass
class _Found:
    """A diverging random tape."""

    scope: Scope
    found: Found
    kind: tuple[object, ...]
    known: str | None = None


@dataclass
class Gate:
    """One run of a gate.

    Attributes:
        saves: saves findings: unshrunk when they are seen, minimal when they are judged.
        corpus: the folder that grows, or None.
    """

    plan: GatePlan
    clock: Clock
    pool: WorkerPool
    show: Progress
    result: GateResult
    saves: Saves
    known: list[Known] = field(default_factory=list)
    corpus: Corpus | None = None
    _profiles: Sequence[Profile] = ()
    _replayed: dict[Scenario, tuple[Replayed, Tape, Divergence | None]] = field(default_factory=dict)
    _next: dict[Scope, int] = field(default_factory=dict)
    _candidates: list[tuple[Tape, set[str]]] = field(default_factory=list)
    _coming: defaultdict[Kind, set[str]] = field(default_factory=lambda: defaultdict(set))
    _seen: set[tuple[object, ...]] = field(default_factory=set)
    _new_kinds: set[tuple[object, ...]] = field(default_factory=set)
    _signatures: set[tuple[object, ...]] = field(default_factory=set)

    def player(self, target: str) -> Player:
        """Return a player whose worker comes from the pool."""
        return Player(target, None, self._answer_seconds, worker=self.pool.worker)

    @property
    def _answer_seconds(self) -> float:
        limit = self.clock.seconds
        return ANSWER_SECONDS if limit is None else min(ANSWER_SECONDS, max(3.0, limit * ANSWER_PART))

    # Scenarios and kept tapes

    def play_scenarios(self, bases: Bases) -> None:
        """Play every scenario and enter its verdict into the result. Without a base, this finds out what is known."""
        self._replay_scenarios()
        if not self.known:
            known, warning = bases.usual({it.name: replayed for it, (replayed, _, _) in self._replayed.items()})
            self.known = [known]
            if warning is not None:
                self._warn(warning)
        self.result.base = [it.name for it in self.known]
        self._judge_scenarios()

    def _replay_scenarios(self) -> None:
        self.show.stage("playing scenarios")
        with self.player(self.plan.target) as player:
            self._profiles = player.profiles
            for scenario in scenarios():
                if self.clock.is_over:
                    break
                self._replayed[scenario] = replay(player, scenario)

    def _judge_scenarios(self) -> None:
        for scenario, (replayed, tape, divergence) in self._replayed.items():
            if divergence is None:
                self._enter(Case(SCENARIOS, scenario.name, replayed.verdict, replayed.what, scenario=scenario.name))
                continue
            why = self._why_known(Candidate(tape, divergence, scenario))
            finding = self._finding(tape, divergence=divergence, tape_name=scenario.name)
            # A tape that diverges in another class shows another bug than that of its incident.
            verdict = "known" if why is not None else "back" if replayed.verdict == "diverges" else "new"
            self._enter(Case(SCENARIOS, scenario.name, verdict, why or "", finding, scenario.name))
        if len(self._replayed) < len(scenarios()):
            self._warn(f"{len(scenarios()) - len(self._replayed)} scenarios were not played: the time was spent")

    def play_kept(self) -> None:
        """Play the kept tapes."""
        if not self.plan.kept:
            return
        self.show.stage("playing kept tapes")
        with self.player(self.plan.target) as player:
            for path in self.plan.kept:
                if self.clock.is_over:
                    self._warn(f"kept tape {path} was not played: the time was spent")
                    continue
                self.play_tape(player, path)

    def play_tape(self, player: Player, path: Path) -> None:
        """Play a tape file and enter its verdict."""
        name = str(path)
        try:
            tape, _ = adapt(load(path), player.profiles)
            divergence = player.play(tape)
        except TapeError as error:
            self._warn(f"not played: {error}")
            return
        except WorkerLost:
            raise
        except (Unplayable, TargetError) as error:
            self._enter(Case(KEPT, name, "unplayable", str(error)))
            return
        if divergence is None:
            if self.corpus is not None and path.parent == self.corpus.folder:
                self.corpus.situations[path] = kind_of(tape.config), frozenset(player.seen)
            self._enter(Case(KEPT, name, "silent"))
            return
        finding = self._finding(tape, divergence=divergence, tape_name=name)
        self._signatures.add(finding.signature)
        why = self._why_known(Candidate(tape, divergence))
        self._enter(Case(KEPT, name, "new" if why is None else "known", why or "", finding))

    def stale(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the accepted findings that no longer diverge on the target."""
        gone = []
        with self.player(self.plan.target) as player:
            for entry in entries:
                tape, _ = adapt(entry.tape, player.profiles)
                try:
                    divergence = player.play(tape)
                except WorkerLost:
                    raise
                except (Unplayable, TargetError):
                    divergence = None
                if divergence is None or not entry.is_like(tape, divergence, entry.scenario):
                    gone.append(entry)
        return gone

    # Random tapes

    def fuzz(self, some: Sequence[Scope] | None = None) -> None:
        """Play random tapes of every scope in rounds, and judge what they find, until the time or the tapes are spent
        or a round has found something new.

        Args:
            some: the scopes; None for all that the target has.
        """
        scopes = self._scopes() if some is None else some
        if some is None and self.plan.scope is None:
            self._compare_scopes(scopes)
        self.result.played = [Played(scope) for scope in scopes]
        while True:
            found = self._round()
            if found:
                self._judge(found)
            if not self.result.interrupted:
                self._grow()
            done = self.plan.tapes is not None or self.clock.left < LEAST_SECONDS
            if done or self.result.interrupted or self._has_found():
                break
        self._warn_of_gaps()

    def _scopes(self) -> list[Scope]:
        """The scopes that are asked for: all that the target has, as far as their tapes can have the pins."""
        plan = self.plan
        if plan.scope is not None:
            return [plan.scope]
        scopes = scopes_of(self._profiles, plan.pins)
        if plan.pins and not scopes:
            raise TargetError(no_scope(plan.target, plan.pins, self._profiles))
        if plan.pins:
            played = [replace(it, pins=()) for it in scopes]
            left_out = ", ".join(str(it) for it in scopes_of(self._profiles) if it not in played)
            if left_out:
                self._warn(f"not tested, because their tapes cannot have {shown_pins(plan.pins)}: {left_out}")
        return scopes

    def _has_found(self) -> bool:
        return any(case.group not in (SCENARIOS, KEPT) for case in self.result.failures)

    def _warn_of_gaps(self) -> None:
        gaps = [str(it.scope) for it in self.result.played if not it.tapes]
        if gaps and not self.result.interrupted:
            self._warn(f"no random tape was played of {', '.join(gaps)}: the time was spent")

    def _compare_scopes(self, scopes: Sequence[Scope]) -> None:
        for it in self.known:
            if isinstance(it, BaseTarget):
                lost = [scope for scope in scopes_of(it.profiles, self.plan.pins) if scope not in scopes]
                for scope in lost:
                    self._warn(f"{scope} was not tested: the base can be driven so, and {self.plan.target} cannot")

    def _round(self) -> list[_Found]:
        """Play random tapes of each scope, and replay on the base what they find. Both end with the round's time."""
        found: list[_Found] = []
        end = self.clock.left * (1 - FUZZ_PART)
        for number, played in enumerate(self.result.played):
            share = self.clock.share(len(self.result.played) - number, end)
            if share is not None and share <= 0:
                break
            results = self._campaign(played.scope, share)
            played.tapes += results.tapes
            played.events += results.events
            played.diverged += results.diverged
            fresh = self._fresh(played.scope, results)
            self._compare(fresh, end)
            found += fresh
            for note in results.notes:
                self._warn(f"{played.scope}: {note}")
            if results.interrupted:
                self.result.interrupted = True
                break
        return found

    def _campaign(self, scope: Scope, seconds: float | None) -> Results:
        self.show.stage(f"playing tapes of {scope}")
        plan = self.plan
        start = self._next.get(scope, 0 if self.corpus is None else self.corpus.start(scope, plan.seed))
        results = Campaign(
            plan.target, plan.seed, Budget(plan.tapes, seconds), plan.workers, None, scope, self.show.campaign,
            lambda target, mutant: self.pool.worker(target, mutant, self._answer_seconds),
            start=start, chunk=CHUNK, examples=EXAMPLES,
        ).run()  # fmt: skip
        self._next[scope] = start + -(-results.tapes // CHUNK) * CHUNK
        if self.corpus is not None:
            self.corpus.next[str(scope), plan.seed] = self._next[scope]
            self._note_situations(scope, results)
        return results

    def _note_situations(self, scope: Scope, results: Results) -> None:
        """Remember tapes with situations that no tape of the corpus reaches, each with what it adds."""
        assert self.corpus is not None
        by_tape: dict[int, set[str]] = {}
        for situation, index in sorted(results.reached.items(), key=lambda it: it[1]):
            by_tape.setdefault(index, set()).add(situation)
        for index, situations in by_tape.items():
            tape = generate_tape(seeded(self.plan.seed, index), results.profiles)
            added = situations - self.corpus.reached(kind_of(tape.config)) - self._coming[kind_of(tape.config)]
            if added:
                self._coming[kind_of(tape.config)] |= added
                self._candidates.append((tape, added))

    def _grow(self) -> None:
        """Add small forms of the remembered tapes to the corpus."""
        candidates, self._candidates = self._candidates, []
        if self.corpus is None or not candidates:
            return
        self.show.stage("adding tapes to the corpus")
        deadline = self.clock.left * (1 - GROW_PART)
        with self.player(self.plan.target) as player:
            for tape, added in candidates:
                small = minimized(tape, added, player, lambda: self.clock.left < deadline)
                path = self.corpus.add(small, added, self.plan.target)
                if player.play(small) is None:
                    self.corpus.situations[path] = kind_of(small.config), frozenset(player.seen)

    def _fresh(self, scope: Scope, results: Results) -> list[_Found]:
        """Return what was found and is of a kind that no earlier round has found."""
        fresh = []
        for it in results.found:
            told = it.divergence
            kind = (scope, *told.key, plain(told.what), *place(it.tape, told))
            if kind not in self._seen:
                fresh.append(_Found(scope, it, kind))
        self._seen |= {it.kind for it in fresh}
        return fresh

    def _compare(self, found: Sequence[_Found], end: float) -> None:
        """Note what a base target shows in the same way.

        Args:
            end: time left at which only one example of a kind is compared.
        """
        self.show.stage("comparing with the base")
        exact = [it for it in self.known if isinstance(it, BaseTarget)]
        firsts = {it.kind: it for it in reversed(found)}
        others = [it for it in found if firsts[it.kind] is not it]
        for it in [*firsts.values(), *others]:
            if self.clock.left < end and firsts[it.kind].known is not None:
                it.known = firsts[it.kind].known
                continue
            raw = self._raw(it)
            it.known = next(filter(None, (known.knows(Candidate(raw.tape, raw.divergence)) for known in exact)), None)

    def _judge(self, found: list[_Found]) -> None:
        """Enter what is known, shrink the rest, and compare again."""
        known = {it.kind: it for it in reversed(found) if it.known is not None}
        if not self.plan.minimal:
            for it in known.values():
                self._enter_found(it, self._raw(it), it.known)
        rest = [it for it in found if it.known is None or (self.plan.minimal and known[it.kind] is it)]
        for it in rest:
            if it.known is None:
                self.saves.see(self._raw(it))
        self._shrink_all(self._in_order(rest))

    def _in_order(self, found: list[_Found]) -> list[_Found]:
        """Return what is shrunk first: what is probably new, and of that one of each class and check."""
        ranks: Counter[tuple[object, ...]] = Counter()
        keys = {}
        for it in found:
            sort = it.kind[1:3]
            keys[id(it)] = it.known is not None, self._is_likely(it), ranks[sort]
            ranks[sort] += 1
        return sorted(found, key=lambda it: keys[id(it)])

    def _is_likely(self, it: _Found) -> bool:
        """Whether a tape is probably known, which only its minimal tape decides."""
        return self._why_known(Candidate(it.found.tape, it.found.divergence), inexact=True) is not None

    def _shrink_all(self, rest: list[_Found]) -> None:
        results = Results(profiles=list(self._profiles))
        left_out = 0
        opened = Shrinker(self.plan.target, None, results, self.pool.worker, self._answer_seconds)
        with closing(opened) as shrinker:
            for number, it in enumerate(rest, 1):
                if it.kind in self._new_kinds:
                    self.saves.drop(self._raw(it))
                    continue  # another tape of this kind is new already
                alike = sum(kind[1:3] == it.kind[1:3] for kind in self._new_kinds)
                if alike >= (1 if self.clock.is_over else MAX_ALIKE):
                    left_out += 1
                    self.saves.drop(self._raw(it))
                    continue
                finding = self._shrunk(shrinker, it, number, len(rest))
                why = it.known or self._why_known(Candidate(finding.tape, finding.divergence))
                self._enter_found(it, finding, why)
        if left_out:
            self._warn(f"{left_out} more diverging tapes were not examined: they have the class of new findings")
        for note in results.notes:
            self._warn(note)

    def _shrunk(self, shrinker: Shrinker, it: _Found, number: int, total: int) -> Finding:
        if self.clock.is_over:
            return self._raw(it)
        deadline = self.clock.deadline(total - number + 1, SHRINK_SECONDS)
        shrunk, _ = shrinker.run(it.found, lambda tried: self.show.shrinking(number, total, tried), deadline)
        unsteady = shrinker.again(shrunk) != shrunk.divergence
        return replace(self._raw(it), tape=shrunk.tape, divergence=shrunk.divergence, shrunk=shrunk, unsteady=unsteady)

    def _raw(self, it: _Found) -> Finding:
        plan = self.plan
        origin = Origin(plan.target, plan.release, None, plan.seed, it.found.index, scope=it.scope)
        tape, divergence = it.found.tape, it.found.divergence
        played = tape.events if divergence.event < 0 else tape.events[: divergence.event + 1]
        return Finding(origin, replace(tape, events=played), divergence)

    def _enter_found(self, it: _Found, finding: Finding, why: str | None) -> None:
        name = f"seed {self.plan.seed}, tape {it.found.index}"
        if why is None:
            self._new_kinds.add(it.kind)
        if why is not None or finding.signature in self._signatures:
            self.saves.drop(finding)
        if finding.signature in self._signatures:
            return
        self._signatures.add(finding.signature)
        self._enter(Case(str(it.scope), name, "new" if why is None else "known", why or "", finding))

    # What is common to all

    def _why_known(self, candidate: Candidate, inexact: bool = False) -> str | None:
        known = [it for it in self.known if not (inexact and isinstance(it, BaseTarget))]
        return next(filter(None, (it.knows(candidate) for it in known)), None)

    def _finding(self, tape: Tape, divergence: Divergence, tape_name: str) -> Finding:
        return Finding(Origin(self.plan.target, self.plan.release, tape=tape_name), tape, divergence)

    def _enter(self, case: Case) -> None:
        if case.verdict == "new" and case.group not in (SCENARIOS, KEPT) and case.finding is not None:
            path = self.saves.keep(case.finding)
            case = replace(case, saved=None if path is None else str(path))
        self.result.cases.append(case)

    def _warn(self, text: str) -> None:
        if text not in self.result.warnings:
            self.result.warnings.append(text)
