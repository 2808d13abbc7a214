"""The free group around the results of a batch, on real releases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from plain_run import LATER

GROUPED: dict[str, tuple[list[str], bool]] = {
    **dict.fromkeys(
        ("0.5.11", "0.5.12", "0.5.13", "0.5.14", "0.5.15", "0.5.16", "0.5.17"), (["decode", "prebuilt"], False)
    ),
    **dict.fromkeys(("0.5.18", "0.5.19"), (["decode", "prebuilt", "prefill"], False)),
    **dict.fromkeys(("0.5.20", "0.5.21", "0.5.22", "0.5.23"), (["decode", "prebuilt", "prefill"], True)),
}
"""Version -> the batches whose results are processed in a free group, and whether an abort there inserts nothing."""

FIRST = ("0.5.12", "0.5.17", "0.5.18", "0.5.20", "0.5.23")


@pytest.mark.parametrize("version", [pytest.param(it, marks=[] if it in FIRST else [LATER]) for it in GROUPED])
def test_results_are_processed_inside_the_groups_of_the_release(
    probe: Callable[..., dict[str, Any]], version: str
) -> None:
    """The scheduler's source says which batches have one, and no page is free before it ends."""
    answer = probe("engine_probe.py", f"sglang=={version}", "results")
    assert (answer["grouped"], answer["drops_aborted"]) == GROUPED[version]
    # Each request has four pages, of which two are the tree's. A finished one leaves the third to the tree.
    freed = 1 + (2 if answer["drops_aborted"] else 1)
    for before, first, second, after in answer["free"].values():
        assert before == first == second
        assert after == before + freed
