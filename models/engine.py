"""The world of the engine level: requests, and the KV of each prefix."""

from __future__ import annotations

from .config import SWA, Config
from .graphs import Graphs
from .hits import Hits
from .mapping import Mapping
from .prefix import PrefixTags
from .requests import Phase, Request
from .situations import Witness

__all__ = ["EngineWorld"]


class EngineWorld(Witness):
    """Everything that an engine-level tape touches.

    Slots are not predicted: each slot with a token's KV must hold the tag of the token's prefix.

    Attributes:
        requests: the requests that wait or run, by number.
        swa_layers: for each layer, whether it is an SWA layer.
        graphs: captures, and runs through graphs.
        mapping: the target's table as it was read after each event.
        hits: the prefix tree as it was after the last event; only the check of hits keeps it.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.tags = PrefixTags(len(config.layers))
        self.swa_layers = [kind == SWA for kind in config.layers]
        self.requests: dict[int, Request] = {}
        self.graphs = Graphs()
        self.mapping = Mapping(0)
        self.hits = Hits()
        self.aborted: set[tuple[int, ...]] = set()

    def arrive(self, number: int, tokens: list[int]) -> None:
        """A request waits."""
        request = Request(list(tokens), len(tokens))
        request.prefixes = self.tags.prefixes(tokens)
        self.requests[number] = request
        if tuple(tokens) in self.aborted:
            self.saw("retried")

    def admit(self, number: int, cached: int) -> None:
        """A request was admitted with this many tokens from the cache."""
        request = self.requests[number]
        request.phase = Phase.ADMITTED
        request.computed = cached

    def computed(self, number: int, count: int) -> None:
        """A request's next `count` tokens have KV."""
        request = self.requests[number]
        request.computed += count
        if request.computed > request.prompt:
            return
        request.unsaved = True
        if request.computed < request.prompt:
            self.saw("chunked")

    def append(self, number: int, token: int) -> None:
        """A request got one more token, which has no KV yet."""
        request = self.requests[number]
        request.prefixes += self.tags.prefixes([token], request.prefixes[-1])
        request.tokens.append(token)

    def reject(self, number: int, count: int) -> None:
        """A request's last `count` tokens were not accepted."""
        request = self.requests[number]
        kept = len(request.tokens) - count
        del request.tokens[kept:], request.prefixes[kept:]
        request.computed -= count

    def decoded(self, number: int, token: int) -> None:
        """A decode step: a request's last token has KV, and the next one is known."""
        self.append(number, token)
        self.computed(number, 1)

    def merged(self) -> None:
        """A decode step begins: requests that were started since the last one are part of the running batch."""

    def checkpoint(self, number: int) -> None:
        """A request's chunk is in the tree; it decodes once its whole prompt is."""
        request = self.requests[number]
        request.unsaved = False
        if request.computed == request.prompt:
            request.phase = Phase.RUNNING

    def decodes(self, number: int) -> bool:
        """Whether a request can decode one more token."""
        request = self.requests.get(number)
        return request is not None and request.phase is Phase.RUNNING

    def may_evict_window(self, number: int) -> bool:
        """Whether a scheduler may evict a request's window now: between two steps."""
        request = self.requests.get(number)
        return request is not None and request.settled

    def may_finish(self, number: int) -> bool:
        """Whether a request may be done now."""
        request = self.requests.get(number)
        return request is not None and request.phase is Phase.RUNNING

    def result_of(self, number: int) -> str | None:
        """Among the results of which kind of batch a request may be now: of one that computed the end of its prompt
        ("prefill"), or of a decode step ("decode"); None if of neither."""
        request = self.requests.get(number)
        if request is None:
            return None
        if request.unsaved:
            return "prefill" if request.computed == request.prompt else None
        return "decode" if request.phase is Phase.RUNNING else None

    @property
    def mixes(self) -> bool:
        """Whether a batch may compute prompts and decode (``--enable-mixed-chunk``)."""
        return True

    def may_abort(self, number: int) -> bool:
        """Whether a scheduler may abort a request now."""
        request = self.requests.get(number)
        return request is not None and request.settled

    def abort(self, number: int) -> None:
        """A request is aborted."""
        self.leave(number, aborted=True)

    def leave(self, number: int, aborted: bool) -> None:
        """A request is gone."""
        request = self.requests.pop(number)
        self.graphs.drafts.pop(number, None)
        if aborted:
            self.aborted.add(tuple(request.tokens[: request.prompt]))

    def row_tags(self, number: int, start: int, stop: int, layer: int) -> list[int]:
        """The tags of a span of a request's tokens at a layer."""
        layers = self.tags.layers
        return [prefix * layers + layer for prefix in self.requests[number].prefixes[start:stop]]

    def attended(self, number: int, start: int, layer: int) -> tuple[int, int]:
        """The computed tokens that tokens from `start` on attend to at a layer."""
        stop = self.requests[number].computed
        return (max(0, start + 1 - self.config.window), stop) if self.swa_layers[layer] else (0, stop)

    def name(self, tag: int) -> str:
        """A row's tag in words, for messages."""
        if tag == 0:
            return "nothing"
        known = self.tags.tokens(tag)
        if known is None:
            return f"an unwritten row ({tag})"
        tokens, layer = known
        shown = " ".join(map(str, tokens[-6:]))
        return f"the KV of token {len(tokens) - 1} after [{'... ' if len(tokens) > 6 else ''}{shown}] at layer {layer}"
