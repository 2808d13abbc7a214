"""What must hold of an engine target after every event, checked naively from its raw state.

A second opinion on the adapter, independent of the package's own model and checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from staleloc.models.config import FULL, Config
from staleloc.sim.targets.base import V_MARK, Rows
from staleloc.sim.targets.engine import EngineTarget, NodeView, slots_in_flight

__all__ = ["Broken", "Tags", "check"]


class Broken(AssertionError):
    """A property that does not hold."""


class Tags:
    """A number for each pair of prefix and layer: what the KV of its last token at that layer must be."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[tuple[int, ...], int], int] = {}

    def tag(self, prefix: tuple[int, ...], layer: int) -> int:
        """The number of one prefix at one layer."""
        return self._numbers.setdefault((prefix, layer), len(self._numbers) + 1)


def _expect(condition: bool, *facts: object) -> None:
    if not condition:
        raise Broken(" ".join(map(str, facts)))


def check(
    target: EngineTarget, config: Config, tags: Tags, texts: dict[int, list[int]], computed: dict[int, int]
) -> None:
    """Raise Broken if anything is wrong.

    Args:
        texts: request -> its tokens so far.
        computed: request -> how many of its tokens have KV.
    """
    nodes, requests = target.raw_tree(), target.raw_requests()
    paths = _paths(nodes)
    mapping, free = target.raw_mapping(), target.raw_free()
    host_free = target.raw_host_free()
    device_flight, host_flight = slots_in_flight(target.in_flight())
    page = config.page_size
    own = {r: view.row[view.shared :] for r, view in requests.items()}
    own_swa = {r: [mapping[loc] for loc in view.row[max(view.shared, view.evicted) :]] for r, view in requests.items()}
    for r, view in requests.items():
        if view.evicted > view.shared:
            given_up = [mapping[loc] for loc in view.row[view.shared : view.evicted]]
            _expect(not any(given_up), "evicted but mapped", r, view, given_up)
        _expect(0 not in own_swa[r], "own token without SWA slot", r, view, own_swa[r])
    owned = [*(n.full for n in nodes if n.full), *own.values()]
    _partition("full", config.full_pages, free.full, owned, device_flight.full, page)
    owned = [*(n.swa for n in nodes if n.swa), *own_swa.values()]
    _partition("swa", config.swa_pages, free.swa, owned, device_flight.swa, page)
    if config.host_full_size:
        owned = [n.host_full for n in nodes if n.host_full]
        _partition("host full", config.host_full_size, host_free.full, owned, host_flight.full, 1, first=0)
        owned = [n.host_swa for n in nodes if n.host_swa]
        _partition("host swa", config.host_swa_size, host_free.swa, owned, host_flight.swa, 1, first=0)
    live = {loc // page for n in nodes for loc in n.full or ()} | {loc // page for row in own.values() for loc in row}
    loose = [loc for loc, swa in enumerate(mapping) if swa and loc // page not in live]
    _expect(not loose, "unowned full locs with a mapping", loose)
    for node in nodes:
        if node.full is not None:
            mapped = [mapping[loc] for loc in node.full]
            _expect(mapped == list(node.swa or [0] * len(mapped)), "node and mapping differ", node, mapped)
    _locks(nodes, paths, requests, texts, target.pending())
    contents = {layer: target.raw_contents(layer) for layer in range(len(config.layers))}
    for node in nodes:
        for layer, kind in enumerate(config.layers):
            slots = node.full if kind == FULL else node.swa
            flight = set(device_flight.full if kind == FULL else device_flight.swa)
            _hold(contents[layer], slots, paths[node.node], len(node.tokens), tags, layer, flight, ("node", node))
            if config.host_full_size:
                slots = node.host_full if kind == FULL else node.host_swa
                flight = set(host_flight.full if kind == FULL else host_flight.swa)
                rows = target.raw_host_contents(layer)
                _hold(rows, slots, paths[node.node], len(node.tokens), tags, layer, flight, ("host of", node))
    for r, view in requests.items():
        text = tuple(texts[r])
        found = _walk(nodes, paths, text[: view.shared])
        _expect(found is None or found == list(view.row[: view.shared]), "row and tree differ", r, view, found)
        _expect(len(view.row) >= computed[r] or not computed[r], "row is short", r, view, computed[r])
        for layer, kind in enumerate(config.layers):
            start = 0 if kind == FULL else max(view.shared, view.evicted)
            locs = view.row[start : computed[r]]
            slots = locs if kind == FULL else [mapping[loc] for loc in locs]
            flight = set(device_flight.full if kind == FULL else device_flight.swa)
            what = ("request", r, view)
            _hold(contents[layer], slots, text[: start + len(locs)], len(locs), tags, layer, flight, what)


def _paths(nodes: list[NodeView]) -> dict[int, tuple[int, ...]]:
    paths: dict[int | None, tuple[int, ...]] = {None: ()}
    for node in nodes:
        paths[node.node] = paths[node.parent] + node.tokens
    del paths[None]
    return paths  # type: ignore[return-value]


def _walk(nodes: list[NodeView], paths: dict[int, tuple[int, ...]], text: tuple[int, ...]) -> list[int] | None:
    """Full locs of the tree for these tokens; None if part of them is not on the device."""
    locs: list[int] = []
    for node in nodes:
        path = paths[node.node]
        start = len(path) - len(node.tokens)
        if start < len(text) and path[: len(text)] == text[: len(path)]:
            if node.full is None:
                return None
            locs[start:] = node.full[: len(text) - start]
    _expect(len(locs) == len(text), "the tree does not hold", text)
    return locs


def _partition(
    name: str,
    pages: int,
    free: list[int],
    owned: Iterable[Iterable[int]],
    flight: list[int],
    page: int,
    first: int = 1,
) -> None:
    holders = Counter(number for slots in owned for number in {slot // page for slot in slots})
    double = [number for number, count in holders.items() if count > 1]
    _expect(not double, name, "pages with two owners:", sorted(double))
    twice = [number for number, count in Counter(free).items() if count > 1]
    _expect(not twice, name, "pages twice in the free list:", sorted(twice))
    both = set(free) & holders.keys()
    _expect(not both, name, "pages owned and free:", sorted(both))
    racing = set(free) & {slot // page for slot in flight}
    _expect(not racing, name, "pages in flight and free:", sorted(racing))
    lost = set(range(first, pages + first)) - set(free) - holders.keys() - {slot // page for slot in flight}
    _expect(not lost, name, "pages lost:", sorted(lost))
    strange = (set(free) | holders.keys()) - set(range(first, pages + first))
    _expect(not strange, name, "pages out of bounds:", sorted(strange))


def _hold(rows: Rows, slots, path, length, tags, layer, flight, what) -> None:
    if slots is None:
        return
    start = len(path) - length
    for index, slot in enumerate(slots):
        if slot in flight:
            continue
        wanted = tags.tag(tuple(path[: start + index + 1]), layer)
        found, where = rows.keys[slot], ("layer", layer, "position", start + index, "slot", slot)
        _expect(found == wanted, *what, *where, "holds", found, "not", wanted)
        _expect(rows.values is None or rows.values[slot] == wanted + V_MARK, "values differ", *what)


def _locks(nodes, paths, requests, texts, pending) -> None:
    shared = [tuple(texts[r][: view.shared]) for r, view in requests.items()]
    for node in nodes:
        path = paths[node.node]
        start = len(path) - len(node.tokens)
        wanted = sum(path[: len(text)] == text[: len(path)] and len(text) > start for text in shared)
        _expect(
            node.full_locks == wanted or (pending and node.full_locks > wanted),
            "full locks", node.full_locks, "wanted", wanted, node,
        )  # fmt: skip
        _expect(node.swa_locks <= node.full_locks or node.full is None, "swa locks", node)
