"""Which caches can exist, and how they count pages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staleloc.models.config import MAX_HOST_SIZE, MAX_LAYERS, MAX_SIZE, Config, ConfigError

PAGED = Config(page_size=4, full_size=16, swa_size=8)


def test_the_default_cache_is_possible() -> None:
    """A tape that says nothing about its cache gets one that exists."""
    Config().check()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"page_size": 0}, "page_size must be at least 1"),
        ({"full_size": 15}, "full_size must be a positive multiple of page_size 4, not 15"),
        ({"swa_size": 0}, "swa_size must be a positive multiple of page_size 4, not 0"),
        ({"swa_size": -4}, "swa_size must be a positive multiple of page_size 4, not -4"),
        ({"swa_size": 20}, "swa_size must not exceed full_size"),
        ({"full_size": 2 * MAX_SIZE}, f"at most {MAX_SIZE} slots"),
        ({"layers": ("swa",) * (MAX_LAYERS + 1)}, f"and {MAX_LAYERS} layers"),
        ({"layers": ()}, "layers must name at least one layer"),
        ({"layers": ("swa", "linear")}, 'each "full" or "swa"'),
        ({"layers": ("full", "full")}, "at least one layer must be a sliding-window layer"),
        ({"window": 0}, "window must be at least 1"),
        ({"host_full_size": 6, "host_swa_size": 4}, "host_full_size must be 0 or a multiple of page_size 4"),
        ({"host_full_size": 4, "host_swa_size": 8 * MAX_SIZE}, f"up to {MAX_HOST_SIZE}, not {8 * MAX_SIZE}"),
        ({"host_full_size": 4}, "a host tier has slots of both kinds"),
        ({"write_policy": "write_once"}, "write_policy must be one of write_through, write_back, not write_once"),
    ],
)
def test_an_impossible_cache_is_refused_with_the_rule_it_breaks(change: dict[str, object], reason: str) -> None:
    """Each rule has its own message, and `possible` agrees with `check`."""
    config = replace(PAGED, **change)  # type: ignore[arg-type]
    assert not config.possible
    with pytest.raises(ConfigError, match=reason.replace("(", r"\(")):
        config.check()


def test_pages_are_counted_without_the_dummy_page() -> None:
    """A pool of 16 slots in pages of 4 has 4 pages; 5 tokens take 2 of them."""
    assert (PAGED.full_pages, PAGED.swa_pages) == (4, 2)
    assert [PAGED.pages(tokens) for tokens in (0, 1, 4, 5, 8)] == [0, 1, 1, 2, 2]
