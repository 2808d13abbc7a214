"""What a forward reads, by hand: two requests, one of them with two tokens in the batch."""

from __future__ import annotations

from staleloc.models.forward import Forward

FORWARD = Forward(tokens=[(0, 4), (0, 5), (3, 1)], locs=[7, 8, 2], began=6)


def test_full_attention_reads_everything_up_to_the_last_token() -> None:
    """Tokens of the batch read each other, and whatever the request has before them."""
    assert FORWARD.reach(None) == [(0, 0, 6), (3, 0, 2)]


def test_sliding_window_attention_reads_the_window_that_ends_at_the_last_token() -> None:
    """The window counts the token itself and stops at the request's start."""
    assert FORWARD.reach(1) == [(0, 5, 6), (3, 1, 2)]
    assert FORWARD.reach(4) == [(0, 2, 6), (3, 0, 2)]


def test_the_last_token_is_the_one_of_the_highest_position() -> None:
    """The order of tokens in the batch does not matter."""
    assert Forward([(0, 5), (0, 4)], [8, 7], 0).reach(2) == [(0, 4, 6)]
