"""Checks of whole requests: tree, locks and pools, and the rows that slots hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from ....models.graphs import Run, misplaced, padded
from ....models.hicache import Copied, overlap_fault
from ....models.radix import Node, structure_fault, wanted_locks
from ...core.divergence import Divergence, LocRow
from ...targets.base import V_MARK, Rows
from ...targets.engine import NodeView
from ..check import check, holds
from .events import Admit, Checkpoint
from .step import EngineStep

__all__ = [
    "check_overflow", "check_structure", "check_admission", "check_races", "check_values",
    "check_graphs", "check_rows", "check_locks", "check_refusal", "check_eviction",
]  # fmt: skip

_POOLS = (
    ("full", "device", "full"),
    ("SWA", "device", "swa"),
    ("host full", "host", "full"),
    ("host SWA", "host", "swa"),
)


@check("overflow", order=5)
def check_overflow(step: EngineStep) -> Divergence | None:
    """Overflow: a request's allocated tokens fit its row of the request table.

    Kernels address the table as one vector, so a write behind the end of a row changes the next row (SGLang's
    ``assign_req_to_token_pool``).
    """
    for number, view in step.requests.items():
        if view.overflow > 0:
            row = len(view.row)
            what = f"request {number} has {row + view.overflow} allocated tokens and a row of {row}"
            why = f"the locs of the last {view.overflow} were written into the next row"
            return step.diverges("out-of-bounds", what, why)
    return None


@check("structure", order=10)
def check_structure(step: EngineStep) -> Divergence | None:
    """Structure: the tree's keys are whole pages, siblings differ, and no node has slots that do not fit its key."""
    fault = structure_fault([item.node for item in step.keyed], step.world.config.page_size)
    return None if fault is None else step.diverges("misaligned", fault)


@check("admission", order=40)
def check_admission(step: EngineStep) -> Divergence | None:
    """Admission: what a prompt takes from the cache is whole pages of it, and leaves a token to compute."""
    event, admission = step.event, step.admission
    if admission is None or not isinstance(event, Admit):
        return None
    prompt, size = step.world.requests[event.request].prompt, step.world.config.page_size
    what = f"request {event.request} of {prompt} tokens was given {admission.cached} from the cache"
    if admission.cached >= prompt:
        return step.diverges("out-of-bounds", what, "no token is left to compute, so there are no logits")
    if admission.cached % size:
        return step.diverges("misaligned", what, f"a cached prefix is whole pages of {size}")
    if admission.loaded > admission.cached:
        return step.diverges("out-of-bounds", f"{what} and {admission.loaded} from the host alone")
    return None


@check("races", order=80)
def check_races(step: EngineStep) -> Divergence | None:
    """Races: a slot whose copy has not finished belongs to that copy alone.

    Two queued transfers share no slot unless both only read it, and no request writes its tokens to a slot
    that a transfer still uses: only nodes are copied, so a request's own slots never are. (That a free list
    holds none is a matter of owners.)
    """
    if not step.copying:
        return None
    return _overlapping(step) or _reused(step)


def _overlapping(step: EngineStep) -> Divergence | None:
    for name, side, kind in _POOLS:
        on_host = side == "host"
        copies = [Copied(getattr(getattr(it, side), kind), it.to_host == on_host) for it in step.copying]
        fault = overlap_fault(name, copies)
        if fault is not None:
            return step.diverges(fault.kind, fault.what)
    return None


def _reused(step: EngineStep) -> Divergence | None:
    device, _ = step.in_flight
    full, swa = step.pages(device.full), step.pages(device.swa)
    for number, view in step.requests.items():
        own = view.row[view.shared :]
        for name, used in (
            ("full", step.pages(own) & full),
            ("SWA", step.pages([step.mapping[loc] for loc in own if step.mapping[loc]]) & swa),
        ):
            if used:
                what = f"request {number} was given {name} page {min(used)}, which a queued copy still uses"
                return step.diverges("race", what)
    return None


@check("values", order=120)
def check_values(step: EngineStep) -> Divergence | None:
    """Values: a node's SWA locs are a cached translation too, and equal the mapping of its full locs.

    A loc that nobody may translate (a tombstone's, a free one) has no SWA slot.
    """
    mapping = step.mapping
    for node in step.tree:
        if node.full is None:
            continue
        expected = node.swa or (0,) * len(node.full)
        if any(mapping[loc] != swa for loc, swa in zip(node.full, expected, strict=True)):
            rows = [LocRow(loc, mapping[loc], swa) for loc, swa in zip(node.full, expected, strict=True)]
            wrong = [row for row in rows if row.expected != row.actual]
            kind = "stale-translation" if node.swa else "wrong-mapping"
            what = f"node {node.node} keeps SWA loc {wrong[0].actual} for full loc {wrong[0].loc}"
            what += f", which maps to {wrong[0].expected}"
            why = "the tree's copy and the mapping were not changed together"
            return step.diverges(kind, what, why, wrong)
    for number, view in step.requests.items():
        start, stop = step.world.requests[number].window(step.world.config.window)
        for position in range(start, min(stop, len(view.row))):
            if not mapping[view.row[position]]:
                loc = view.row[position]
                what = f"token {position} of request {number} (full loc {loc}) is in the window and has no SWA slot"
                return step.diverges("wrong-mapping", what)
    return None


@check("graphs", order=140)
def check_graphs(step: EngineStep) -> Divergence | None:
    """Graphs: a forward through a captured graph writes each token's row to its slot at every layer, and no other.

    Rows beyond the batch go to the dummy slot, and so does all that a capture runs. What a graph wrote is compared
    with the mapping at its replay, so an answer that is not the mapping's shows although nobody may read the row.
    """
    for run, written in step.runs:
        for layer, swa in enumerate(step.world.swa_layers):
            row = misplaced(written[layer], run.swa if swa else run.locs)
            if row is not None:
                return _misplaced(step, run, layer, written[layer], row)
    return None


def _misplaced(step: EngineStep, run: Run, layer: int, written: Sequence[int], row: int) -> Divergence:
    swa = step.world.swa_layers[layer]
    slots = run.swa if swa else run.locs
    graph = f"the graph that event {{{run.captured}}} captured"
    if row >= len(written):
        what = f"the {run.runner} graph wrote {row} of {len(slots)} tokens at layer {layer}"
        return step.diverges("wrong-content", what, f"it is {graph}")
    if run.warm_up:
        wanted = "in its own capture"
    else:
        wanted = f"expected {slots[row]}" if row < len(slots) else f"beyond its batch of {len(slots)}"
    what = f"the {run.runner} graph wrote row {row} to {'SWA ' if swa else ''}slot {written[row]} of layer {layer}"
    if not swa:
        return step.diverges("wrong-content", f"{what}, {wanted}", f"it is {graph}")
    kind, why = _source(step, run, written, row)
    return step.diverges(kind, f"{what}, {wanted}", f"{graph} {why}", _rows(run, written))


def _source(step: EngineStep, run: Run, written: Sequence[int], row: int) -> tuple[str, str]:
    """The class of a wrong SWA loc, and what the graph did."""
    graphs = step.world.graphs
    source = graphs.served(run, written)
    if source is None:
        left = graphs.left_by(run, row, written[row])
        whose = "a translation of no run" if left is None else f"what {_named(left)} left in row {row}"
        return "stale-translation", f"was given {whose}"
    if source.event > run.captured:
        return "stale-translation", f"was given the translation of {_named(source)}"
    return "graph-pollution", f"uses what {_named(source)} translated before it"


def _named(run: Run) -> str:
    return "a warm-up on the dummy slot" if run.warm_up else f"the {run.runner} run of event {{{run.event}}}"


def _rows(run: Run, written: Sequence[int]) -> list[LocRow]:
    size = len(written)
    rows = zip(padded(run.locs, size), padded(run.swa, size), written, strict=True)
    return [LocRow(loc, slot, actual) for loc, slot, actual in rows if slot != actual]


@check("rows", order=150)
def check_rows(step: EngineStep) -> Divergence | None:
    """Rows: slots that hold the KV of a prefix, in any tier, hold that KV and no other.

    Checked for every running request (all its tokens in full layers, its window in SWA layers), for
    every node on the device and on the host, and for what attention read back.
    """
    return _rows_of_requests(step) or _rows_read(step) or _rows_of_nodes(step)


def _rows_read(step: EngineStep) -> Divergence | None:
    world = step.world
    for request, start, layer, rows in step.reads:
        tags = world.row_tags(request, start, start + len(rows.keys), layer)
        for offset, tag in enumerate(tags):
            if not holds(rows, offset, tag):
                what = f"attention of request {request} at layer {layer} read {_found(step, rows, offset)}"
                return step.diverges("wrong-content", f"{what}, expected {world.name(tag)}")
    return None


def _rows_of_requests(step: EngineStep) -> Divergence | None:
    world, mapping = step.world, step.mapping
    flying = {swa: _flying(step, swa) for swa in (False, True)}
    for number, view in step.requests.items():
        request = world.requests[number]
        for layer, swa in enumerate(world.swa_layers):
            start, stop = request.window(world.config.window) if swa else (0, request.computed)
            row = view.row[start:stop]
            slots = [mapping[loc] for loc in row] if swa else row
            tags = world.row_tags(number, start, start + len(row), layer)
            fault = _compare(step, step.contents[layer], slots, tags, flying[swa])
            if fault is not None:
                position, slot, found, wanted = fault
                landed = _landed(step, layer, wanted) if swa and _wrote(step, number, start + position) else None
                what = f"slot {slot} of layer {layer}, token {start + position} of request {number}, holds {found}"
                what = f"{what}, expected {world.name(wanted)}"
                if landed is None:
                    why = _written_there(step, layer, slot) or f"request {number} attends to that row"
                    return step.diverges("wrong-content", what, why, [LocRow(row[position], slot, None)])
                why = f"the row was written to SWA slot {landed}: the translation differs from the mapping"
                return step.diverges("stale-translation", what, why, [LocRow(row[position], slot, landed)])
    return None


def _wrote(step: EngineStep, number: int, position: int) -> bool:
    """Whether the event wrote this token of a request."""
    return any(span.request == number and span.start <= position < span.stop for span in step.written)


def _landed(step: EngineStep, layer: int, tag: int) -> int | None:
    """Another slot in which a row just written landed."""
    keys = step.contents[layer].keys
    return keys.index(tag) if tag in keys else None


def _written_there(step: EngineStep, layer: int, slot: int) -> str:
    """Which token the event wrote to a slot that is another one's; empty if it wrote none there."""
    key = step.contents[layer].keys[slot]
    for request, start, stop in step.written:
        tags = step.world.row_tags(request, start, stop, layer)
        if key in tags:
            event = f"[{step.index}] at event {{{step.index}}}"
            return f"{event} rewrote the row, with that of token {start + tags.index(key)} of request {request}"
    return ""


def _rows_of_nodes(step: EngineStep) -> Divergence | None:
    tags = step.world.tags
    ends: dict[int | None, int] = {None: 0}  # node -> the prefix that ends with it
    layers = [_tiers(step, layer, swa) for layer, swa in enumerate(step.world.swa_layers)]
    for item in step.placed:
        node = item.node
        prefixes = tags.prefixes(node.tokens, ends[node.parent])
        ends[node.node] = prefixes[-1] if prefixes else ends[node.parent]
        for layer, tiers in enumerate(layers):
            expected = [tags.tag(prefix, layer) for prefix in prefixes]
            for name, slots_of, rows, flying in tiers:
                places = slots_of(node)
                fault = None if places is None else _compare(step, rows, places, expected, flying)
                if fault is not None:
                    position, slot, found, wanted = fault
                    what = f"{name} {slot} of layer {layer}, token {len(item.before) + position} of node {node.node},"
                    what = f"{what} holds {found}, expected {step.world.name(wanted)}"
                    what += step.origin(slot) if slots_of is _SWA_SLOTS else ""
                    why = _written_there(step, layer, slot) if name == "slot" else ""
                    why = why or "a request that matches this node reads that row"
                    return step.diverges("wrong-content", what, why)
    return None


_SWA_SLOTS = attrgetter("swa")

_Tier = tuple[str, Callable[[Node], Sequence[int] | None], Rows, set[int]]


def _tiers(step: EngineStep, layer: int, swa: bool) -> list[_Tier]:
    """Where nodes keep rows of a layer: a name, the slots of a node, the rows of all slots, and those in flight."""
    _, host = step.in_flight
    device = ("slot", _SWA_SLOTS if swa else attrgetter("full"), step.contents[layer], _flying(step, swa))
    if not step.world.config.host_full_size:
        return [device]
    host_slots = attrgetter("host_swa" if swa else "host_full")
    return [device, ("host slot", host_slots, step.host_contents[layer], set(host.swa if swa else host.full))]


def _flying(step: EngineStep, swa: bool) -> set[int]:
    device, _ = step.in_flight
    return set(device.swa if swa else device.full)


def _compare(
    step: EngineStep, rows: Rows, slots: Sequence[int], tags: list[int], flying: set[int]
) -> tuple[int, int, str, int] | None:
    """The first slot with the wrong row, as ``(position, slot, what it holds, tag wanted)``."""
    if not flying and [rows.keys[slot] for slot in slots] == tags:
        values = rows.values
        if values is None or [values[slot] - V_MARK for slot in slots] == tags:
            return None
    for position, (slot, tag) in enumerate(zip(slots, tags, strict=True)):
        if slot not in flying and not holds(rows, slot, tag):
            return position, slot, _found(step, rows, slot), tag
    return None


def _found(step: EngineStep, rows: Rows, slot: int) -> str:
    key = step.world.name(rows.keys[slot])
    if rows.values is None or rows.values[slot] == (rows.keys[slot] + V_MARK if rows.keys[slot] else 0):
        return key
    return f"the key of {key} and another value"


@check("locks", order=180)
def check_locks(step: EngineStep) -> Divergence | None:
    """Locks: a node is locked once for each running request whose tokens lead through it, and for queued transfers.

    Its SWA slots are locked once for each request whose window reaches into it, or more often: an engine locks whole
    nodes, and may keep locked what a window has left behind. A lock that is just taken reaches no node that ends before
    the window. Its host slots are locked for load-backs.
    """
    world = step.world
    shared = {number: step.path(number, view.shared) for number, view in step.requests.items()}
    wanted = wanted_locks(step.keyed, shared)
    lockable = step.lockable
    allowed = wanted_locks(step.keyed, {**shared, **lockable}) if lockable else wanted
    starts = {number: world.requests[number].window(world.config.window)[0] for number in shared}
    windows = wanted_locks(step.keyed, shared, starts)
    quiet = not step.target.pending()
    for node in step.tree:
        if node.full is None or node.full_locks < 0:
            continue
        need = wanted[node.node]
        if node.full_locks < need:
            what = f"node {node.node} is locked {node.full_locks} times and {need} running requests need it"
            return step.diverges("use-after-free", what, _unlocked(step, node.node, "full_locks", node.full_locks))
        if quiet and node.full_locks > allowed[node.node]:
            need = allowed[node.node]
            what = f"node {node.node} is locked {node.full_locks} times and only {need} running requests need it"
            return step.diverges("leak", what, "a lock was never released: the node cannot be evicted")
        if node.swa is not None and 0 <= node.swa_locks < windows[node.node]:
            need = windows[node.node]
            what = f"node {node.node} has {node.swa_locks} SWA locks and {need} running requests attend to it"
            return step.diverges("use-after-free", what, _unlocked(step, node.node, "swa_locks", node.swa_locks))
        if node.swa_locks > node.full_locks:
            what = f"node {node.node} has {node.swa_locks} SWA locks and {node.full_locks} full locks"
            return step.diverges("leak", what, "an SWA lock outlived its full lock")
    return _beyond(step) or _host_locks(step)


def _unlocked(step: EngineStep, number: int, locks: str, now: int) -> str:
    """What the event did to a node that has too few locks."""
    name = "a lock" if locks == "full_locks" else "an SWA lock"
    if step.previous is None:
        return f"{name} was released early"
    event = f"[{step.index}] at event {{{step.index}}}"
    before = next((getattr(node, locks) for node in step.previous.tree if node.node == number), None)
    if before is None:
        return f"{event} made the node, and did not give it {name} that its slots need"
    return f"{event} released {name} early" if now < before else f"{event} did not take {name} that is needed"


def _beyond(step: EngineStep) -> Divergence | None:
    """Looked at where a lock was just taken and is the only one: later a node that it holds may be split.

    With speculative decode keys are of pairs of tokens, and a draft may want more than the window.
    """
    event, window = step.event, step.world.config.window
    if not isinstance(event, Admit | Checkpoint) or "spec" in step.world.config.features or step.target.pending():
        return None
    if step.requests.keys() != {event.request}:
        return None
    start = step.requests[event.request].shared - window
    ends = {item.node.node: len(item.path) for item in step.keyed}
    for node in step.tree:
        if node.swa_locks > 0 and ends[node.node] <= start:
            what = f"node {node.node} has {node.swa_locks} SWA locks and ends before the only request's window"
            return step.diverges("leak", what, "its SWA slots stay taken for as long as the request runs")
    return None


def _host_locks(step: EngineStep) -> Divergence | None:
    """Only a load-back locks what it reads on the host, until it has read it (there is no storage behind the host).

    So a node has as many locks as the load-backs in flight will release, and after a split both halves have.
    """
    loading = any(not copy.to_host for copy in step.copying)
    for node in step.tree:
        for locks, due, pool in (
            (node.host_locks, node.host_due, ""),
            (node.host_swa_locks, node.host_swa_due, " (SWA)"),
        ):
            if locks is None:
                continue
            what = f"node {node.node} is locked {locks} times on the host{pool}"
            if locks < 0:
                return step.diverges("use-after-free", what, "a host lock was released that was never taken")
            if locks and not loading:
                what += ", and nothing is being loaded back"
                return step.diverges("leak", what, "a host lock was never released: its host slots stay taken")
            if due is not None and locks != due:
                what += f", and the load-backs in flight will unlock it {due} times"
                if locks < due:
                    return step.diverges("use-after-free", what, "a node that is being read on the host lost its lock")
                return step.diverges("leak", what, "a host lock will never be released: its host slots stay taken")
    return None


@check("refusal", order=230)
def check_refusal(step: EngineStep) -> Divergence | None:
    """Refusal: a step that fits is not refused."""
    need = step.refused
    if need is None or need > min(len(step.free.full), len(step.free.swa)):
        return None
    full, swa = len(step.free.full), len(step.free.swa)
    what = f"a step that needs {need} pages was refused; {full} full and {swa} SWA are free"
    return step.diverges("leak", what)


@check("eviction", order=240)
def check_eviction(step: EngineStep) -> Divergence | None:
    """Eviction: a tree that evicted less than requested has nothing left that it could evict."""
    owed = step.owed
    if owed is None or max(owed) <= 0 or step.target.pending():
        return None
    inner = {node.parent for node in step.tree if node.full is not None}
    for node in step.tree:
        if node.full is None:
            continue
        leaf = node.node not in inner and not node.full_locks
        for pool, tokens, could in (
            ("full", owed[0], leaf),
            ("SWA", owed[1], node.swa is not None and (leaf or _swa_unlocked(node))),
        ):
            if tokens > 0 and could:
                what = f"the tree evicted {tokens} {pool} tokens too few and kept node {node.node}, which nothing locks"
                return step.diverges("leak", what, "an unused node cannot be evicted")
    return None


def _swa_unlocked(node: NodeView) -> bool:
    """Whether nobody locks its SWA slots; where such locks cannot be seen, whether nobody locks it at all."""
    return node.swa_locks == 0 or (node.swa_locks < 0 and not node.full_locks)
