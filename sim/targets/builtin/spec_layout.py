"""Where a draft's branches lie behind a request's computed tokens, and how many slots a step takes."""

from __future__ import annotations

from ....models.config import Config

__all__ = ["Layout"]


class Layout:
    """Positions in a request's row.

    With pages of one token, or with one branch, branches follow each other behind the last computed token. Else each
    branch has whole pages of its own: the first goes on in the request's last page, and the others begin with a copy of
    the tokens in it, so that no two branches write to one page (``assign_draft_cache_locs``).
    """

    def __init__(self, config: Config) -> None:
        self.page_size = config.page_size
        self.steps = config.spec_steps
        self.topk = config.spec_topk
        self.nodes = config.spec_draft_tokens
        self.paged = config.page_size > 1 and config.spec_topk > 1

    def stride(self, computed: int) -> int:
        """How far apart two branches of a request of so many tokens begin."""
        if not self.paged:
            return self.steps
        return self.ceil(computed % self.page_size + self.steps)

    def branch(self, computed: int, branch: int) -> range:
        """Positions of a branch's tokens."""
        start = computed + branch * self.stride(computed)
        return range(start, start + self.steps)

    def head(self, computed: int, branch: int) -> range:
        """Positions at which a branch has the tokens of the page that it starts in."""
        if not self.paged:
            return range(0)
        start = self.floor(computed) + branch * self.stride(computed)
        return range(start, start + computed % self.page_size)

    def end(self, computed: int) -> int:
        """Where the last branch ends, with its page."""
        start = self.floor(computed) if self.paged else computed
        return start + self.topk * self.stride(computed)

    @property
    def reserve(self) -> int:
        """Slots kept beyond what is committed: twice what a step takes, for one step may not be committed yet."""
        return 2 * max(self.stride(self.page_size - 1) * self.topk, self.nodes)

    def floor(self, length: int) -> int:
        """`length` down to whole pages."""
        return length // self.page_size * self.page_size

    def ceil(self, length: int) -> int:
        """`length` up to whole pages."""
        return self.floor(length + self.page_size - 1)
