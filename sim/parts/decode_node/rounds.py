"""What is wrong with a round of admission: it lets in exactly those that fit, first come first served."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ....models.admission import NOTHING, Preallocating, Resuming
from ....models.decode_node import DecodeRequest, Stage
from ....models.disaggregation import Load, Room, Tokens
from ....models.radix import found_whole
from ...core.divergence import Divergence
from ...targets.engine import NodeView, RequestView
from .step import Before, DisaggStep, locks_seen, room_of

__all__ = ["Pins", "earlier", "round_fault"]


class Loose(NamedTuple):
    """Whether the tree could give up one token's full and SWA slot."""

    full: bool
    swa: bool


def _loose(nodes: Iterable[NodeView]) -> dict[int, Loose]:
    """Full loc of each token in the tree -> what the tree could give up of it."""
    return {
        loc: Loose(node.full_locks <= 0, node.swa is not None and node.swa_locks <= 0)
        for node in nodes
        for loc in node.full or ()
    }


class Pins:
    """Attributes what was pinned in a round to the requests that were admitted in it, one after the other.

    Args:
        before: the tree before the round.
        after: the tree after it.
        admitted: the requests, as they are after it.
    """

    def __init__(self, before: Sequence[NodeView], after: Sequence[NodeView], admitted: Sequence[RequestView]) -> None:
        self._loose = _loose(before)
        self._swa_locked = {
            loc for node in after if node.swa is not None and node.swa_locks > 0 for loc in node.full or ()
        }
        self._admitted = [set(view.row[: view.shared]) for view in admitted]

    def take(self, view: RequestView, cached: int) -> Tokens | None:
        """What this request's lock pinned first; None if another one may have pinned the same SWA slots."""
        full = swa = 0
        for loc in view.row[:cached]:
            was, locked = self._loose.get(loc, Loose(False, False)), loc in self._swa_locked
            full += was.full
            if was.swa and locked:
                if sum(loc in other for other in self._admitted) > 1:
                    return None
                swa += 1
            self._loose[loc] = Loose(False, was.swa and not locked)
        return Tokens(full, swa)


class _Fault(NamedTuple):
    """A request that was let in and does not fit, or the other way round; `kind` is the divergence's class."""

    kind: str
    what: str
    why: str = ""


def round_fault(step: DisaggStep, kind: str) -> Divergence | None:
    """The first fault of this kind, which is its check's name, too."""
    for fault in _round_faults(step):
        if fault.kind == kind:
            return step.diverges(kind, fault.what, fault.why)
    return None


def _round_faults(step: DisaggStep) -> Iterator[_Fault]:
    """Every fault of the step's round, if it was one, in the order of the requests."""
    if step.asked is not None:
        yield from _enqueued(step, step.asked)
    if step.round is not None:
        yield from _overtaken(step, [*(item.request for item in step.round.admitted), *step.round.failed])
    if step.resumed is not None:
        yield from _overtaken(step, step.resumed)
    if step.before is None or not (locks_seen(step.before.tree) and locks_seen(step.tree)):
        return
    if step.before.copying or step.target.pending() or _writes_back(step):
        return  # what a queued transfer pins, an eviction cannot give up, and nobody can say when it is over
    if step.round is not None:
        yield from _preallocated(step)
    if step.resumed is not None:
        yield from _resumed(step, step.resumed)


def _writes_back(step: DisaggStep) -> bool:
    """Whether an eviction queues a copy to the host, which a round may wait for, so that it ends with none queued."""
    config = step.world.config
    return config.host_full_size > 0 and config.write_policy == "write_back"


def _enqueued(step: DisaggStep, request: DecodeRequest) -> Iterator[_Fault]:
    config = step.world.config
    rejects = step.world.accounts.rejects(request, config.full_size, config.swa_size)
    if step.enqueued == rejects:
        kind = "over-admission" if step.enqueued else "starvation"
        fits = "does not fit" if rejects else "fits"
        yield _Fault(kind, f"a prompt of {request.prompt} tokens was {_was(step.enqueued)}, and {fits} an empty node")


def _overtaken(step: DisaggStep, came: list[int]) -> Iterator[_Fault]:
    """Who came first and still waits: a queue stops at the first request that does not fit (``pop_preallocated`` and
    ``resume_retracted_reqs``), or those who need much would wait for ever."""
    waits = next((number for number in step.queue[: len(came)] if number not in came), None)
    if waits is not None:
        ahead = next(number for number in reversed(step.queue) if number in came)
        yield _Fault("starvation", f"request {ahead} was let in before request {waits}, which came first")


def _preallocated(step: DisaggStep) -> Iterator[_Fault]:
    assert step.before is not None
    assert step.round is not None
    world = step.world
    before, load = earlier(step, step.before)
    replay = Preallocating(world.accounts, before, load)
    pins = Pins(step.before.tree, step.tree, [step.requests[item.request] for item in step.round.admitted])
    for item in step.round.admitted:
        job = world.job(item.request)
        locked = pins.take(step.requests[item.request], item.cached)
        if locked is None:
            return  # whose lock pins the SWA slots cannot be told
        asked, left = replay.offers(job, item.cached, locked, item.loaded)
        if not world.accounts.fits(asked, left):
            yield _Fault("over-admission", f"request {item.request} was admitted: {_needs(asked, left)}")
        replay.admit(job, item.cached, locked, item.loaded)
    for number in step.round.failed:
        yield _Fault(
            "over-admission", f"request {number} was aborted", "it fitted the budgets, and no room was made for it"
        )
    yield from _kept_waiting(step, replay)


def _kept_waiting(step: DisaggStep, replay: Preallocating) -> Iterator[_Fault]:
    """The front of the queue fits, without what the tree has of its prompt or with it."""
    world = step.world
    for job, number in zip(world.at(Stage.QUEUED)[:1], world.queues[Stage.QUEUED], strict=False):
        for cached, locked in ((0, NOTHING), _in_the_tree(step, job)):
            asked, left = replay.offers(job, cached, locked)
            if world.accounts.fits(asked, left):
                having = f", {cached} tokens of it cached" if cached else ""
                yield _Fault("starvation", f"request {number} waits{having}: {_needs(asked, left)}")
                return


def _in_the_tree(step: DisaggStep, job: DecodeRequest) -> tuple[int, Tokens]:
    """What any engine finds of a prompt in the tree, and the most that locking it can pin.

    The tail is not looked for where it is allocated anew behind a prefix (``_match_prefix_and_lock``).
    """
    accounts, config = step.world.accounts, step.world.config
    most = job.prompt - (accounts.tail(job.prompt) if accounts.rules.tail_after_prefix else 1)
    found, path = found_whole(step.keyed, step.keys(job, most), config.page_size)
    views = {node.node: node for node in step.tree}
    full = sum(count for node, count in path if views[node.node].full_locks <= 0)
    return found, Tokens(full, sum(count for node, count in path if views[node.node].swa_locks <= 0))


def _resumed(step: DisaggStep, resumed: list[int]) -> Iterator[_Fault]:
    assert step.before is not None
    world = step.world
    before, load = earlier(step, step.before)
    replay = Resuming(world.accounts, before, load)
    for number in (*resumed, *world.queues[Stage.RETRACTED][:1]):
        asked, left = replay.offers(world.job(number))
        fits, came = world.accounts.fits(asked, left), number in resumed
        if came and not fits:
            yield _Fault("over-admission", f"request {number} resumed: {_needs(asked, left)}")
        if fits and not came:
            yield _Fault("starvation", f"request {number} stays retracted: {_needs(asked, left)}")
        replay.admit(world.job(number))


def earlier(step: DisaggStep, before: Before) -> tuple[Room, Load]:
    """Pools and requests as the round found them."""
    load = step.world.load()
    admitted = [] if step.round is None else [item.request for item in step.round.admitted]
    resumed = [step.world.job(number) for number in step.resumed or ()]
    load = replace(load, active=load.active - len(admitted) - len(resumed), retracted=[*resumed, *load.retracted])
    return room_of(step.world.config, before.free, before.tree), load


def _needs(asked: Tokens, left: Tokens) -> str:
    return f"it asks for {asked.full} full and {asked.swa} SWA tokens, and the budgets have {left.full} and {left.swa}"


def _was(accepted: bool) -> str:
    return "queued" if accepted else "rejected"
