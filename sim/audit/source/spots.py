"""Places in a source."""

from __future__ import annotations

import ast
from dataclasses import dataclass

__all__ = ["Spot", "text_of"]

_MAX_TEXT = 160


@dataclass(frozen=True, order=True)
class Spot:
    """A place in a source.

    Attributes:
        path: of the file, relative to the folder read.
        line: from 1.
        function: qualified name.
        text: the statement or call, on one line.
    """

    path: str
    line: int
    column: int
    function: str
    text: str


def text_of(node: ast.AST) -> str:
    """A statement or expression on one line, cut if it is long."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"
