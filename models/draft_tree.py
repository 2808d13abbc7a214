"""Proposed tokens as a tree: the order of tokens, and their places in a draft."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Tree"]


@dataclass(frozen=True)
class Tree:
    """Tokens that one verification computes.

    Attributes:
        tokens: node by node; node 0 is the bonus of the step before.
        parents: node -> the node before it, whose number is smaller; 0 for node 0.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]

    @classmethod
    def of(cls, tokens: Sequence[int], parents: Sequence[int], steps: int, topk: int, nodes: int) -> Tree:
        """The valid tree that is closest to the given tokens and parents.

        If there are too few tokens or parents, they are reused from the start. If a node's parent does not exist yet,
        is at the largest depth, or is followed by a full level, the node goes to the first node that can take it.

        Args:
            tokens: at least one.
            parents: of node 1, node 2 and so on; may be empty.
            steps: depth of the deepest node at most.
            topk: nodes of one depth at most.
            nodes: of the tree; at most ``1 + steps * topk``.
        """
        depths, taken = [0], [1, *[0] * steps]
        chosen = [0]
        for node in range(1, nodes):
            wanted = parents[(node - 1) % len(parents)] if parents else node - 1
            candidates = (wanted, *range(node)) if wanted < node else range(node)
            parent = next(it for it in candidates if depths[it] < steps and taken[depths[it] + 1] < topk)
            chosen.append(parent)
            depths.append(depths[parent] + 1)
            taken[depths[-1]] += 1
        return cls(tuple(tokens[node % len(tokens)] for node in range(nodes)), tuple(chosen))

    def depth(self, node: int) -> int:
        """The number of tokens from node 0 to a node, without node 0."""
        return len(self.path(node)) - 1

    def path(self, node: int) -> list[int]:
        """The nodes from node 0 to a node."""
        path = [node]
        while path[-1]:
            path.append(self.parents[path[-1]])
        return path[::-1]

    def level(self, depth: int) -> list[int]:
        """The nodes of one depth, in order: the n-th of them is the draft's n-th branch."""
        return [node for node in range(len(self.tokens)) if self.depth(node) == depth]

    def along(self, path: Sequence[int]) -> list[int]:
        """The tokens of some nodes."""
        return [self.tokens[node] for node in path]
