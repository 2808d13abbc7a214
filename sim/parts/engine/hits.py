"""The check of hits: what the prefix tree had is found again, unless the event could evict it.

What a match must find is read off the tree as it was before the event, never asked of the match. What may leave the
tree follows from the event: most events evict nothing, some ask for a number of tokens, and of others it is not known
how many they may need.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ....models.hits import Hits, Known, Reach, Room, Shelf
from ...core.divergence import Divergence
from ..check import check
from . import events as ee
from .step import EngineStep

__all__ = ["check_hits"]

_DEVICE, _HOST, _BOTH = Reach(True, False), Reach(False, True), Reach(True, True)

_EVICTS_NOTHING = frozenset(
    {
        *("arrive", "checkpoint", "finish", "abort", "results", "evict_window", "transfer_done"),
        *("enqueue", "submit", "transfer"),
    }
)
"""Kinds of events that allocate nothing on the device."""

_USES_NOTHING = frozenset({"arrive", "prefill", "decode", "evict", "enqueue", "submit", "transfer"})
"""Kinds of events that neither match nor insert nor unlock anything."""


class _Asked(NamedTuple):
    """Tokens of each pool that an event may have asked the tree to evict at most."""

    full: int
    swa: int


_NOTHING = _Asked(0, 0)


@check("hits", order=400, optional=True)
def check_hits(step: EngineStep) -> Divergence | None:
    """Hits: what was inserted, can be reached and was not evicted is found by the next match, is loaded back from the
    host if there is room, and stays until the tree has evicted what was used less recently.

    A match takes whole pages and leaves a token to compute, and its last tokens need the SWA rows of a window. What a
    queued copy still pins, and what a write-back finds no room for on the host, may differ.
    """
    moment = _Moment(step)
    found = None
    if step.event.kind != ee.Flush.kind:
        looks = (_matched, _inserted, _kept, _within, _in_order, _copied, _written_back)
        found = next((it for it in (look(moment) for look in looks) if it is not None), None)
    moment.close()
    return found


class _Insertion(NamedTuple):
    """A request's computed tokens became the tree's.

    Attributes:
        path: their whole pages.
        last: no chunk of its prompt comes after them.
    """

    request: int
    known: Known
    path: list[int]
    last: bool


@dataclass
class _Moment:
    """An event, with the tree before it and after it."""

    step: EngineStep

    @property
    def memory(self) -> Hits:
        """What is known from before the event."""
        return self.step.world.hits

    @property
    def size(self) -> int:
        return self.step.world.config.page_size

    @property
    def before(self) -> Shelf:
        return self.memory.shelf

    @cached_property
    def after(self) -> Shelf:
        return self.memory.shelve(self.step.keyed, self.size)

    def ends(self, shelf: Shelf, reach: Reach) -> set[int]:
        """The pages in which a match can end. Before the event it needs SWA rows of a whole window.

        After it a token less will do, which the next token does not attend to: some engines keep no more.
        """
        window = self.step.world.config.window
        return shelf.ends(reach, window if shelf is self.before else max(1, window - 1), self.size)

    def found(self, shelf: Shelf, reach: Reach, path: list[int]) -> int:
        """Tokens of a path that a match takes."""
        return shelf.longest(path, self.ends(shelf, reach)) * self.size

    @cached_property
    def quiet(self) -> bool:
        """Whether no transfer was queued before the event, and none is after it."""
        return self.memory.room.quiet and not self.step.target.pending()

    @cached_property
    def room(self) -> Room:
        """What is free after the event, in tokens."""
        step, size = self.step, self.size
        host = (len(step.host_free.full), len(step.host_free.swa)) if step.world.config.host_full_size else (0, 0)
        return Room(len(step.free.full) * size, len(step.free.swa) * size, *host, not step.target.pending())

    @cached_property
    def known(self) -> dict[int, Known]:
        """The requests after the event."""
        step, bigram = self.step, int(self.step.world.config.bigram)
        known = {}
        for number, request in step.world.requests.items():
            view = step.requests.get(number)
            computed = request.computed if view is None or view.committed is None else view.committed
            keys, shared = max(0, computed - bigram), 0 if view is None else view.shared
            branch = None if view is None else view.branch
            known[number] = Known(
                path=self.memory.path(step.path(number, len(request.tokens)), self.size),
                shared=shared,
                evicted=0 if view is None else view.evicted,
                inserted=branch if branch is not None and shared < branch <= keys else keys,
                unsaved=request.unsaved,
                whole=request.computed >= request.prompt,
            )
        return known

    @cached_property
    def insertions(self) -> list[_Insertion]:
        """The requests whose tokens the event inserted, as they were before it."""
        step, known = self.step, self.memory.known
        config, event = step.world.config, step.effect
        if not config.prefix_cache or ("disagg" in config.features and not config.decode_tree):
            return []
        if isinstance(event, ee.Checkpoint):
            return [self._insertion(event.request, known[event.request].whole)]
        if isinstance(event, ee.Finish):
            return [self._insertion(event.request, True)]
        if isinstance(event, ee.Results):
            checkpoints = [it for it in event.requests if known[it].unsaved and it not in event.aborted]
            numbers = dict.fromkeys((*event.finished, *checkpoints))
            return [self._insertion(number, True) for number in numbers]
        return []

    def _insertion(self, number: int, last: bool) -> _Insertion:
        known = self.memory.known[number]
        return _Insertion(number, known, known.path[: known.inserted // self.size], last)

    @cached_property
    def prompt(self) -> list[int]:
        """The pages of an admitted request's prompt that a match may take."""
        event = self.step.event
        assert isinstance(event, ee.Admit)
        request = self.step.world.requests[event.request]
        count = max(0, request.prompt - 1 - int(self.step.world.config.bigram))
        return self.memory.path(self.step.path(event.request, count), self.size)

    @cached_property
    def asked(self) -> _Asked | None:
        """What the event may have asked the tree to evict at most; None if that is not known."""
        step, event = self.step, self.step.event
        if event.kind == ee.EvictWindow.kind and step.world.config.switches:
            return None  # a switch may let the tree give up what lies before the window
        if event.kind in _EVICTS_NOTHING:
            return _NOTHING
        if isinstance(event, ee.Evict):
            return _Asked(event.full, event.swa)
        if isinstance(event, ee.Admit):
            lacks_nothing = self.found(self.before, _DEVICE, self.prompt) == self.found(self.before, _BOTH, self.prompt)
            return _NOTHING if lacks_nothing else None
        if not set(step.world.config.features) <= {"graphs"}:
            return None
        effect, size, room = step.effect, self.size, self.memory.room
        if isinstance(effect, ee.Prefill):
            tokens = effect.count + (size if size > 1 else 0)
        elif isinstance(effect, ee.Decode):
            tokens = len(effect.requests) * size
        else:
            return None
        return _Asked(max(0, tokens - room.full), max(0, tokens - room.swa))

    @cached_property
    def host_short(self) -> bool:
        """Whether backups may have needed more slots on the host than were free before the event."""
        if not self.step.world.config.host_full_size:
            return False
        full = swa = 0
        for number in {**self.before.pages, **self.after.pages}:
            old, new = self.before.pages.get(number), self.after.pages.get(number)
            for page in (old, new):
                full += page is not None and page.full and not page.host_full
                swa += page is not None and page.swa and not page.host_swa
            full += new is not None and new.host_full and not (old is not None and old.host_full)
            swa += new is not None and new.host_swa and not (old is not None and old.host_swa)
        return full * self.size > self.memory.room.host_full or swa * self.size > self.memory.room.host_swa

    def lost(self, detail: str, why: str) -> Divergence:
        return self.step.diverges("lost-hit", detail, why)

    @property
    def users(self) -> Iterable[int]:
        """The requests that may have used the tree."""
        fields = self.step.event.arguments()
        if self.step.event.kind in _USES_NOTHING:
            return ()
        return (fields["request"],) if "request" in fields else {**self.memory.known, **self.known}

    def close(self) -> None:
        """Remember the state for the next event."""
        ended = [it.path for it in self.insertions]
        if isinstance(self.step.event, ee.Admit) and self.step.admission is not None:
            ended.append(self.prompt[: self.step.admission.cached // self.size])
        ends = [path[-1] for path in ended if path]
        self.memory.turn(self.step.index, self.after, self.known, self.users, ends, self.room)
        config = self.step.world.config
        for it in self.insertions:
            # Under write-back, releases count no insertions; under write-through, one of each request at least.
            counted = it.request not in self.step.world.requests and config.write_policy == "write_through"
            self.memory.orders.insert(it.path, config.priority_of(it.request), counted)


def _matched(moment: _Moment) -> Divergence | None:
    """A match finds what the tree had before it."""
    step, admission = moment.step, moment.step.admission
    if not isinstance(step.event, ee.Admit) or admission is None:
        return None
    path, cached = moment.prompt, admission.cached
    device, whole = moment.found(moment.before, _DEVICE, path), moment.found(moment.before, _BOTH, path)
    what = f"request {step.event.request} was given {cached} tokens from the cache"
    if device < whole and cached < whole:
        if moment.quiet and _fits(moment, path[: whole // moment.size]):
            return moment.lost(f"{what}, and {whole} were there with those on the host", "there was room to load them")
        # Making room may have taken the window of what was on the device.
        device = min(device, moment.found(moment.after, _DEVICE, path))
    if cached < device:
        return moment.lost(f"{what}, and {device} were on the device", "nothing had evicted them")
    return None


def _fits(moment: _Moment, path: list[int]) -> bool:
    """Whether a load-back of a path's pages has room in free slots, or in those of nodes that nothing locks."""
    pages = [moment.before.pages[number] for number in path]
    full = sum(not page.full for page in pages) * moment.size
    swa = sum(page.host_swa and not page.swa for page in pages) * moment.size
    room, kept = moment.memory.room, {page.node for page in pages}
    spare_full, spare_swa = room.full, room.swa
    write_back = moment.step.world.config.write_policy == "write_back"
    for name, view in moment.before.views.items():
        if name in kept or view.full is None or view.full_locks or (write_back and view.host_full is None):
            continue
        spare_full += len(view.tokens)
        spare_swa += len(view.tokens) if view.swa is not None else 0
    return full <= spare_full and swa <= spare_swa and not moment.host_short


def _inserted(moment: _Moment) -> Divergence | None:
    """A match would find what was just inserted."""
    for number, known, path, _ in moment.insertions:
        if not _has_window(moment, known, path):
            continue
        found = moment.found(moment.after, _DEVICE, path)
        if found < len(path) * moment.size:
            what = f"request {number} inserted {len(path) * moment.size} tokens, and a match would find {found}"
            return moment.lost(what, "the tree did not keep all of them")
    return None


def _has_window(moment: _Moment, known: Known, path: list[int]) -> bool:
    """Whether all SWA slots of the window at the end of these pages were the request's own, or the tree's."""
    size, pages = moment.size, moment.before.pages
    first = max(0, len(path) * size - moment.step.world.config.window) // size
    for count, number in enumerate(path[first:], first):
        start, page = count * size, pages.get(number)
        own = start >= max(known.shared, known.evicted)
        if not own and not (start < known.shared and page is not None and page.swa):
            return False
    return bool(path)


def _kept(moment: _Moment) -> Divergence | None:
    """An event that evicts nothing takes no hit away, and while the host has room none is taken from there."""
    tiers = []
    if moment.asked == _NOTHING:
        tiers.append((_DEVICE, _BOTH, "on the device"))
    if moment.step.world.config.host_full_size and not moment.host_short:
        tiers += [(_BOTH, _BOTH, "on the device or the host")] if moment.asked == _NOTHING else []
        tiers.append((_HOST, _HOST, "on the host"))
    for had, has, where in tiers:
        gone = moment.ends(moment.before, had) - moment.ends(moment.after, has)
        if gone:
            number = min(gone, key=lambda it: (moment.before.pages[it].stop, it))
            page = moment.before.pages[number]
            what = (
                f"the {page.stop} tokens up to a page of node {page.node} could be found {where}, and cannot any more"
            )
            return moment.lost(what, "nothing had to give way to anything")
    return None


class _Gone(NamedTuple):
    """Tokens of a node that left the device: full rows, and SWA rows."""

    full: int
    swa: int


def _gone(moment: _Moment) -> dict[int, _Gone]:
    """By name, the nodes that lost rows on the device, but not those that no match needs: they have no SWA rows."""
    gone = {}
    for name, numbers in moment.before.nodes.items():
        full = swa = 0
        for number in numbers:
            old, new = moment.before.pages[number], moment.after.pages.get(number)
            if old.swa or old.host_swa:
                full += old.full and not (new is not None and new.full)
                swa += old.swa and not (new is not None and new.swa)
        if full or swa:
            gone[name] = _Gone(full * moment.size, swa * moment.size)
    return gone


def _within(moment: _Moment) -> Divergence | None:
    """An eviction ends as soon as it has freed what it was asked for. A node leaves as a whole."""
    asked = moment.asked
    if asked is None or not moment.quiet or moment.host_short:
        return None
    gone = _gone(moment)
    full = [it.full for it in gone.values() if it.full]
    swa = [it.swa for it in gone.values() if it.swa]
    tombstones = any(not it.full for it in gone.values())
    if not gone or (full and not tombstones and sum(full) - max(full) < asked.full):
        return None
    if swa and sum(swa) - max(swa) < asked.swa:
        return None
    names = ", ".join(f"node {name}" for name in gone)
    what = f"the tree evicted {sum(full)} full and {sum(swa)} SWA tokens ({names})"
    return moment.lost(f"{what}, and {asked.full} and {asked.swa} were needed", "a smaller eviction had sufficed")


def _in_order(moment: _Moment) -> Divergence | None:
    """Nodes leave in the order of the policy: none is evicted while another that comes before it could have been."""
    config = moment.step.world.config
    # Under write-through an eviction copies nothing, and what a queued copy keeps is locked.
    alone = isinstance(moment.step.event, ee.Evict) and config.write_policy == "write_through"
    if not (alone and config.eviction_policy != "lru") and (not moment.quiet or moment.host_short):
        return None
    gone = _gone(moment)
    if not gone:
        return None
    for name, tokens in gone.items():
        spared = list(_spared(moment, bool(tokens.full)))
        wrong = [_overtaken(moment, policy, name, spared) for policy in _policies(moment, tokens)]
        if wrong and None not in wrong:
            return wrong[0]
    return None


def _policies(moment: _Moment, gone: _Gone) -> list[str]:
    """The policies by which rows of a node may have been chosen; none if that cannot be told.

    Only leaves that give up full slots follow the config's. SWA slots, with which a leaf goes too, follow the least
    recent use.
    """
    policy, asked = moment.step.world.config.eviction_policy, moment.asked
    if moment.step.event.kind == ee.EvictWindow.kind:
        return []
    if policy == "lru" or not gone.full:
        return ["lru"]
    if asked is None:
        return [policy, "lru"] if isinstance(moment.step.event, ee.Admit) else []
    total = sum(page.full and not _has_full(moment, number) for number, page in moment.before.pages.items())
    if isinstance(moment.step.event, ee.Evict) and total * moment.size - gone.full < asked.full:
        return [policy]  # full slots come first, and the others were too few
    return [policy] * (asked.full > 0) + ["lru"] * (asked.swa > 0)


def _has_full(moment: _Moment, number: int) -> bool:
    """Whether full rows of a page are on the device after the event."""
    page = moment.after.pages.get(number)
    return page is not None and page.full


def _overtaken(moment: _Moment, policy: str, name: int, spared: list[int]) -> Divergence | None:
    """The divergence if a node that was spared comes before one that was evicted."""
    orders, nodes = moment.memory.orders, moment.before.nodes
    for other in spared:
        (first, _), (_, last) = orders.place(policy, nodes[name]), orders.place(policy, nodes[other])
        if first <= last:
            continue
        if policy == "lru":
            what = f"the tree evicted node {name}, used at event {{{first}}}, and kept node {other}"
            return moment.lost(f"{what}, last used at event {{{last}}}", "what was used least recently leaves first")
        what = f"the tree evicted node {name} and kept node {other}, which comes before it by the policy {policy}"
        return moment.lost(what, _FIRST[policy])
    return None


_FIRST = {
    "lfu": "what was inserted least often leaves first",
    "fifo": "what came first leaves first",
    "mru": "what was used most recently leaves first",
    "filo": "what came last leaves first",
    "priority": "what has the lowest priority leaves first",
}
"""Policy -> what must leave first."""


def _spared(moment: _Moment, leaf: bool) -> Iterator[int]:
    """The nodes that could have been evicted and were not: those with SWA rows on the device that nothing locks."""
    leaves = set(moment.before.leaves())
    for name, view in moment.before.views.items():
        now = moment.after.views.get(name)
        if now is None or now.tokens != view.tokens or (leaf and name not in leaves):
            continue
        if all(it.full is not None and it.swa is not None and not it.full_locks for it in (view, now)):
            yield name


def _written_back(moment: _Moment) -> Divergence | None:
    """Under write-back, a node that leaves the device lives on on the host if it has room.

    The window of an inner node may go without a copy, also when the node itself follows in the same event.
    """
    config = moment.step.world.config
    if not config.host_full_size or config.write_policy != "write_back" or moment.host_short:
        return None
    if not moment.memory.room.quiet:
        return None
    leaves = set(moment.before.leaves())
    for name, tokens in _gone(moment).items():
        for number in moment.before.nodes[name] if tokens.full else ():
            old, new = moment.before.pages[number], moment.after.pages.get(number)
            if new is not None and new.full:  # the front of a node that was split
                continue
            if new is None or not new.host_full or (name in leaves and old.swa and not new.host_swa):
                what = f"the {old.stop} tokens up to a page of node {name} left the device without a copy on the host"
                return moment.lost(what, "the host had room for all that had none")
    return None


def _copied(moment: _Moment) -> Divergence | None:
    """Under write-through, what a request inserted at the end of its prompt or of its life is copied to the host."""
    config = moment.step.world.config
    if not config.host_full_size or config.write_policy != "write_through" or moment.host_short:
        return None
    if not moment.memory.room.quiet:
        return None
    for number, known, path, last in moment.insertions:
        if not last or not _has_window(moment, known, path):
            continue
        found = moment.found(moment.after, _HOST, path)
        if found < len(path) * moment.size:
            what = f"request {number} inserted {len(path) * moment.size} tokens, and {found} are copied to the host"
            return moment.lost(what, "the host has room for all of them")
    return None
