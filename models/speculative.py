"""Speculative decode: lengths in tokens and in keys, a step's reserve, and the world of such requests.

If keys are bigrams (EAGLE), the draft's KV of token i also depends on token i + 1, so n tokens have n - 1 keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .config import Config
from .draft_tree import Tree
from .engine import EngineWorld
from .requests import Request

__all__ = ["KeyLen", "SpecRequest", "SpecWorld", "TokenLen", "alloc_len", "branch_tokens", "key_numbers"]

_BIGRAM = 1 << 32


@dataclass(frozen=True, order=True)
class KeyLen:
    """A length in keys of the prefix tree. It cannot be added to a length in tokens."""

    count: int

    def pages(self, page_size: int) -> KeyLen:
        """Its whole pages."""
        return KeyLen(self.count // page_size * page_size)


@dataclass(frozen=True, order=True)
class TokenLen:
    """A length in tokens."""

    count: int

    def keys(self, bigram: bool) -> KeyLen:
        """The keys of so many tokens."""
        return KeyLen(max(0, self.count - 1) if bigram else self.count)


def key_numbers(tokens: Sequence[int], after: int | None, bigram: bool) -> list[int]:
    """A number for each key of some tokens; `after` is the token that comes next, None at the end."""
    if not bigram:
        return list(tokens)
    following = [*tokens[1:], *([] if after is None else [after])]
    return [first * _BIGRAM + second for first, second in zip(tokens, following, strict=False)]


class Rules(Protocol):
    """How an engine counts; see `staleloc.sim.targets.speculative.SpecRules`."""

    @property
    def whole_pages(self) -> bool: ...
    @property
    def restores_mapping(self) -> bool: ...
    @property
    def claims_bonus(self) -> bool: ...


def branch_tokens(config: Config, length: int) -> int:
    """Tokens from the start of `length`'s page to the end of a branch of the draft, in whole pages. `spec_steps` for a
    draft whose branches follow each other without page alignment."""
    if config.page_size == 1 or config.spec_topk == 1:
        return config.spec_steps
    return config.pages(length % config.page_size + config.spec_steps) * config.page_size


def alloc_len(config: Config) -> int:
    """The most tokens that one step may take, at any start within a page (``get_alloc_len_per_decode``)."""
    return max(branch_tokens(config, config.page_size - 1) * config.spec_topk, config.spec_draft_tokens)


@dataclass
class SpecRequest(Request):
    """One request. `computed` counts the tokens whose KV is final.

    Attributes:
        allocated: tokens that have slots.
        drafted: tokens whose KV the draft's pool has.
        prepared: a step is prepared and not drafted yet.
        tree: the draft that is not verified yet.
        steps: how many steps it was prepared for.
        prepared_at: tokens that were committed when it was last prepared.
        uncommitted: lengths of accepted paths that the scheduler does not know yet, the oldest first.
    """

    allocated: int = 0
    drafted: int = 0
    prepared: bool = False
    steps: int = 0
    prepared_at: int = 0
    tree: Tree | None = None
    uncommitted: list[int] = field(default_factory=list)

    @property
    def committed(self) -> int:
        """Tokens with KV that the scheduler knows."""
        return self.computed - sum(self.uncommitted)


class SpecWorld(EngineWorld):
    """Everything that a tape of speculative decode touches."""

    def __init__(self, config: Config, rules: Rules) -> None:
        super().__init__(config)
        self.rules = rules

    def speculating(self, number: int) -> SpecRequest:
        """A request that is alive."""
        request = self.requests[number]
        assert isinstance(request, SpecRequest)
        return request

    def arrive(self, number: int, tokens: list[int]) -> None:
        """A request waits."""
        super().arrive(number, tokens)
        plain = self.requests[number]
        self.requests[number] = SpecRequest(plain.tokens, plain.prompt, prefixes=plain.prefixes)

    def admit(self, number: int, cached: int) -> None:
        """A request was admitted; its cached tokens have the draft's KV too."""
        super().admit(number, cached)
        request = self.speculating(number)
        request.allocated = request.drafted = cached

    def computed(self, number: int, count: int) -> None:
        """A request's next `count` tokens have KV."""
        super().computed(number, count)
        request = self.speculating(number)
        request.allocated = request.computed

    # A step

    def goal(self, number: int) -> int:
        """The length up to which V2 gives slots before a step. The reserve is two steps, because one step may not be
        committed yet. An engine that counts the bonus token at once also counts that step's."""
        request, config = self.speculating(number), self.config
        claimed = len(request.uncommitted) if self.rules.claims_bonus else 0
        goal = request.committed + claimed + 2 * alloc_len(config)
        if self.rules.whole_pages:
            goal = config.pages(goal) * config.page_size
        return max(request.allocated, goal)

    def draft_end(self, number: int) -> int:
        """The length up to which V1 gives slots for a draft."""
        config, start = self.config, self.speculating(number).computed
        if config.page_size > 1 and config.spec_topk > 1:
            start -= start % config.page_size
        return start + branch_tokens(config, self.speculating(number).computed) * config.spec_topk

    def prepare(self, number: int) -> None:
        """A request is ready for a step."""
        request = self.speculating(number)
        request.prepared, request.prepared_at = True, request.committed
        request.steps += 1
        if self.config.spec_ahead:
            request.allocated = self.goal(number)

    def rooted(self, number: int, tree: Tree) -> Tree:
        """The tree as it is proposed for a request, whose next token may be known."""
        return tree

    def draft(self, number: int, tree: Tree) -> None:
        """A tree was proposed."""
        request = self.speculating(number)
        request.prepared, request.tree = False, tree

    def accept(self, number: int, path: Sequence[int]) -> None:
        """A path of the proposed tree was accepted, from node 0 on."""
        request = self.speculating(number)
        assert request.tree is not None
        for token in request.tree.along(path):
            self.append(number, token)
        request.tree = None
        request.computed += len(path)
        if not self.config.spec_ahead:
            request.allocated = request.computed
        else:
            request.uncommitted.append(len(path))

    def commit(self, number: int) -> None:
        """The scheduler learns the oldest accepted path."""
        self.speculating(number).uncommitted.pop(0)

    def counted(self, number: int) -> int:
        """What an engine counts as committed of a request."""
        return self.speculating(number).committed

    def may_leave(self, number: int) -> bool:
        """Whether a request has no step under way, except a verified one. A step of V1 holds no slots."""
        request = self.requests.get(number)
        if not isinstance(request, SpecRequest) or not self.config.spec_ahead:
            return True
        return not request.prepared and request.tree is None and len(request.uncommitted) < 2

    def may_finish(self, number: int) -> bool:
        """Whether a scheduler may find a request done: it has learned a result since the last preparation. Otherwise
        the window slots that the preparation freed would be missing in the insertion. A first step's frees none."""
        if not super().may_finish(number) or not self.may_leave(number):
            return False
        request = self.speculating(number)
        return not self.config.spec_ahead or request.steps < 2 or request.committed > request.prepared_at

    @property
    def mixes(self) -> bool:
        """A step of a draft is a batch of its own."""
        return False

    def may_abort(self, number: int) -> bool:
        """Whether a scheduler may abort a request now, or retract it: before its next step is prepared."""
        return super().may_abort(number) and self.may_leave(number)

    def must_be_evicted(self, number: int) -> int:
        """Leading tokens whose SWA slots a prepared request has freed, if they were its own: all but its window, in
        whole pages, and one page that an engine may keep."""
        config = self.config
        kept = config.window + config.page_size + config.bigram
        return max(0, self.speculating(number).committed - kept) // config.page_size * config.page_size

    # Contents

    def node_prefixes(self, number: int) -> list[int]:
        """The prefix of each node of a request's tree, its path counted."""
        request = self.speculating(number)
        assert request.tree is not None
        prefixes: list[int] = []
        for token, parent in zip(request.tree.tokens, request.tree.parents, strict=True):
            before = prefixes[parent] if prefixes else request.prefixes[-1]
            prefixes += self.tags.prefixes([token], before)
        return prefixes

    def draftable(self, number: int) -> int:
        """Computed tokens of which the draft can compute KV: with bigrams those whose next token is known."""
        request = self.speculating(number)
        known = len(request.tokens) + len(self.following(number))
        return min(request.computed, known - 1) if self.config.bigram else request.computed

    def following(self, number: int) -> list[int]:
        """The prefix that ends with a request's next token, if that is known: the root of its tree."""
        return self.node_prefixes(number)[:1] if self.speculating(number).tree is not None else []

    def draft_tags(self, number: int, start: int, stop: int, layer: int) -> list[int]:
        """The content of the draft's pool for a span of tokens at a layer."""
        return [self.tags.tag(prefix, layer) for prefix in self.draft_prefixes(number, start, stop)]

    def draft_prefixes(self, number: int, start: int, stop: int) -> list[int]:
        """The prefixes that the draft's KV of a span of tokens depends on."""
        request = self.speculating(number)
        prefixes = request.prefixes
        if self.config.bigram:
            prefixes = [*prefixes[1:], *self.following(number)]
        return prefixes[start:stop]

    def keys(self, number: int, count: int) -> list[int]:
        """A number for each of the first `count` keys of a request. No token beyond its own is known."""
        return key_numbers(self.requests[number].tokens, None, self.config.bigram)[:count]
