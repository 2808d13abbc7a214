"""Texts of others: messages of exceptions, and what of a text may reach a terminal."""

from __future__ import annotations

import unicodedata

__all__ = ["message", "printable"]

MAX_MESSAGE = 2000
"""Characters of an exception's message."""

_LEFT_OUT = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
"""Kinds of characters that move the cursor, change colours, turn the direction of writing, or are no character."""


def message(error: BaseException) -> str:
    """The message of an exception of any kind, also of one that cannot tell it."""
    try:
        return str(error)[:MAX_MESSAGE]
    except BaseException as other:
        return f"its message cannot be had, that raises {type(other).__name__}"


def printable(text: str) -> str:
    """A text for a terminal: control characters are written out, as ``\\x1b``. Newlines and tabs stay."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(_written_out(it) if unicodedata.category(it) in _LEFT_OUT else it for it in text)


def _written_out(character: str) -> str:
    return character if character in "\n\t" else character.encode("unicode_escape").decode("ascii")
