"""The lengths and budgets of a decode node, against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from staleloc.models.budgets import budgets
from staleloc.models.disaggregation import Accounts, Load, Room, Tokens, committed, qualifies, tail_length
from staleloc.sim.targets.disagg import Rules


@dataclass(frozen=True)
class Job:
    prompt: int
    outputs: int = 0
    most: int = 1


NOBODY = Load(running=(), active=0, prebuilt=0, retracted=())
EMPTY = Room(full_free=64, full_evictable=0, swa_free=32, swa_evictable=0, swa_size=32)
NODE = Accounts(page_size=4, window=6, reserved=0, uses_tail=True, tree=False, rules=Rules())


@pytest.mark.parametrize(
    ("length", "window", "page", "tail"),
    [
        (10, 4, 4, 6),  # the window starts at 6, its page at 4
        (12, 4, 4, 4),  # on a page boundary
        (12, 5, 4, 8),  # one before it
        (3, 8, 4, 3),  # a window longer than the sequence
        (8, 8, 4, 8),
        (9, 1, 4, 1),
        (10, None, 4, 10),
        (10, 0, 4, 10),
        (0, 4, 4, 0),
        (-1, 4, 4, 0),
        (21, 8, 4, 9),
    ],
)
def test_a_tail_starts_with_the_page_of_the_window(length: int, window: int | None, page: int, tail: int) -> None:
    """Sequence length minus the page-aligned start of the window; everything without a window."""
    assert tail_length(length, window, page) == tail


def test_a_tail_covers_the_window_and_starts_on_a_page() -> None:
    """For every length, window and page size of a small range."""
    for page in (2, 3, 4, 8):
        for window in range(1, 20):
            for length in range(1, 40):
                tail = tail_length(length, window, page)
                assert min(length, window) <= tail < window + page
                assert (length - tail) % page == 0


def test_which_pools_qualify() -> None:
    """An SWA pool, pages of several tokens, and an allocator that offers it: all three."""
    assert qualifies(4, swa_pool=True, offers_tail=True)
    assert not qualifies(1, swa_pool=True, offers_tail=True)
    assert not qualifies(4, swa_pool=False, offers_tail=True)
    assert not qualifies(4, swa_pool=True, offers_tail=False)


def test_the_last_output_token_has_no_kv() -> None:
    """A request is preallocated for its prompt, and for all of its output but the last token."""
    assert [committed(5, outputs) for outputs in (0, 1, 2, 3)] == [5, 5, 6, 7]
    assert NODE.lengths(Job(21, outputs=3)) == Tokens(23, 7)


def test_what_a_request_is_charged() -> None:
    """Whole pages of each pool and the reserved tokens; in the SWA pool those only where the engine says so."""
    node = replace(NODE, window=15, reserved=3)
    assert node.lengths(Job(21)) == Tokens(21, 17)
    assert node.required(Job(21)) == Tokens(24 + 3, 20)
    assert replace(node, rules=Rules(reserves_swa=True)).required(Job(21)) == Tokens(24 + 3, 20 + 3)
    assert replace(node, rules=Rules(whole_pages=False)).required(Job(21)) == Tokens(21 + 3, 17)


def test_what_retraction_gives_back() -> None:
    """Whole lengths in the full pool, the prompt's tail and the output in the SWA pool."""
    assert NODE.retractable([Job(21, 3), Job(5, 1)]) == Tokens(30, (9 + 3) + (5 + 1))


def test_a_pool_without_tail_counts_everything() -> None:
    """And has one budget, of the pool that has less."""
    plain = replace(NODE, uses_tail=False)
    assert plain.lengths(Job(21)) == Tokens(21, 21)
    assert budgets(plain, EMPTY, NOBODY, resuming=False) == Tokens(32, 32)
    assert budgets(NODE, EMPTY, NOBODY, resuming=False) == Tokens(64, 32)


def test_budgets_count_what_the_tree_can_give_up() -> None:
    """Each in its pool; the SWA pool only where the engine says so."""
    room = Room(full_free=8, full_evictable=12, swa_free=4, swa_evictable=8, swa_size=32)
    assert budgets(NODE, room, NOBODY, resuming=False) == Tokens(20, 12)
    older = replace(NODE, rules=Rules(swa_evictable=False))
    assert budgets(older, room, NOBODY, resuming=False) == Tokens(20, 4)


def test_reserved_tokens_of_active_and_prebuilt_requests() -> None:
    """Each keeps its share back in the full pool; in the SWA pool not more than fills their windows."""
    node = replace(NODE, reserved=5)
    load = replace(NOBODY, active=3, prebuilt=2)
    # 30 of 32 SWA slots are used: 3 windows of 6 are full already, so decode adds nothing.
    full = Room(full_free=40, full_evictable=0, swa_free=2, swa_evictable=0, swa_size=32)
    assert budgets(node, full, load, resuming=True) == Tokens(40 - 15 - 10, 2)
    # 10 are used: the three may grow by 8 to 18, the two by 2 to 12.
    some = replace(full, swa_free=22)
    assert budgets(node, some, load, resuming=True) == Tokens(15, 22 - 8 - 2)
    # None is used: 15 and 10 tokens are less than the windows of 18 and 12.
    none = replace(full, swa_free=32)
    assert budgets(node, none, load, resuming=True) == Tokens(15, 32 - 15 - 10)
    # Without a window nothing is reserved in the SWA pool.
    assert budgets(replace(node, window=None), none, load, resuming=True) == Tokens(15, 32)


def test_retracted_requests_come_first() -> None:
    """What they are charged is kept back from new requests, and not from themselves."""
    load = replace(NOBODY, retracted=[Job(21, 3), Job(5, 1)])
    assert budgets(NODE, EMPTY, load, resuming=False) == Tokens(64 - 24 - 8, 32 - 8 - 8)
    assert budgets(NODE, EMPTY, load, resuming=True) == Tokens(64, 32)


def test_the_longest_running_request_can_go_on() -> None:
    """It may still want its output to the end, less what retracting all would give back."""
    running = [Job(8, outputs=1, most=30), Job(6, outputs=2, most=2)]
    load = replace(NOBODY, running=running, active=2)
    # Full: 8 + 30 - (9 + 8). SWA: the tail of 8 with window 6 is 8, of 6 it is 6: 8 + 30 - (9 + 8).
    assert budgets(NODE, EMPTY, load, resuming=False) == Tokens(64 - 21, 32 - 21)
    assert budgets(NODE, EMPTY, load, resuming=True) == Tokens(64, 32)


def test_output_is_looked_ahead_to_a_limit() -> None:
    """4096 tokens, whatever a request may ask for."""
    assert NODE.asked(Job(8, most=1 << 20), 0, ()) == Tokens(8 + 4096, 8 + 4096)


def test_what_admission_asks_for() -> None:
    """What is charged, or prompt and output less what could be retracted, whichever is more."""
    node = replace(NODE, reserved=2)
    assert node.asked(Job(21, most=1), 0, ()) == Tokens(24 + 2, 9 + 3)
    assert node.asked(Job(21, most=10), 0, ()) == Tokens(31, 19)
    assert node.asked(Job(21, most=10), 0, [Job(8, 2)]) == Tokens(26, 12)


def test_admission_behind_a_prefix() -> None:
    """Fewer full slots; SWA slots for every new token, or for the tail alone."""
    assert NODE.asked(Job(21), 8, ()) == Tokens(16, 16)
    assert NODE.allocated(Job(21), 8) == Tokens(16, 16)
    tail = replace(NODE, rules=Rules(tail_after_prefix=True))
    assert tail.asked(Job(21), 8, ()) == Tokens(16, 12)
    assert tail.allocated(Job(21), 8) == Tokens(16, 12)
    uncharged = replace(NODE, rules=Rules(whole_charged=False))
    assert uncharged.asked(Job(21), 8, ()) == Tokens(16, 12)
    assert uncharged.allocated(Job(21), 8) == Tokens(16, 16)


def test_what_fits_can_be_allocated() -> None:
    """With whole pages, what is asked for is never less than what is allocated."""
    for page, window in ((4, 6), (2, 3), (8, 1)):
        for tail in (True, False):
            node = replace(NODE, page_size=page, window=window, uses_tail=tail)
            for length in range(1, 40):
                for cached in range(0, length, page):
                    job = Job(length)
                    asked, allocated = node.asked(job, cached, ()), node.allocated(job, cached)
                    assert asked.full >= allocated.full
                    assert not tail or asked.swa >= allocated.swa


def test_a_wide_tail_holds_a_window_before_the_last_full_page() -> None:
    """Where the tree is given whole pages, the node keeps a window more (from SGLang 0.5.19)."""
    wide = replace(NODE, tree=True, rules=Rules(wide_tail=True))
    assert wide.tail(21) == 21 - 12  # starts at 21 - 1 - 6 = 14, its page at 12
    assert replace(wide, window=2).tail(21) == 21 - 16  # a page at least
    assert replace(wide, tree=False).tail(21) == NODE.tail(21)


def test_where_the_sender_starts() -> None:
    """At the page of the window, or before if it is told so; what is cached need not be sent, if the engine says so."""
    assert NODE.sent_from(21, 0) == 12
    assert NODE.sent_from(21, 16) == 16
    assert replace(NODE, rules=Rules(sender_skips_cached=False)).sent_from(21, 16) == 12
    assert NODE.sent_from(3, 0) == 0
    assert replace(NODE, window=None).sent_from(21, 0) == 0
    assert NODE.sent_from(21, 0, told=3) == NODE.sent_from(21, 0, told=2) == 12
    assert NODE.sent_from(21, 0, told=4) == 8
    assert NODE.sent_from(21, 16, told=6) == 16


def test_who_is_rejected() -> None:
    """A prompt that no empty full pool holds, or whose tail no empty SWA pool does."""
    assert not NODE.rejects(Job(64), 64, 32)
    assert NODE.rejects(Job(65), 64, 32)
    assert replace(NODE, window=40).rejects(Job(33), 64, 32)
    assert not replace(NODE, window=40).rejects(Job(32), 64, 32)
    plain = replace(NODE, uses_tail=False)
    assert plain.rejects(Job(33), 64, 32)
    assert not plain.rejects(Job(32), 64, 32)
