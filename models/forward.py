"""The running forward: which tokens it writes, and which it reads."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Forward"]


@dataclass
class Forward:
    """A batch on its way through the layers.

    Attributes:
        tokens: ``(request, position)`` of each token.
        locs: their full locs as they were when the forward began.
        began: the event that began it.
        changed: the mapping of a token changed since.
    """

    tokens: list[tuple[int, int]]
    locs: list[int]
    began: int
    changed: bool = False

    def reach(self, window: int | None) -> list[tuple[int, int, int]]:
        """What attention reads, as ``(request, start, stop)``: everything up to each request's last token in
        the batch or, with a window in tokens, the window that ends there."""
        last: dict[int, int] = {}
        for request, position in self.tokens:
            last[request] = max(position, last.get(request, 0))
        return [(r, 0 if window is None else max(0, p + 1 - window), p + 1) for r, p in last.items()]
