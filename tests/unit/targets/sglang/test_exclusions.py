"""Which function of a release refuses which pair, read off its sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from staleloc.sim.targets.sglang.capability import excluded, pairs_tree_with_drafts

_DRAFTS = """
def handle(args):
    if args.radix and args.algorithm {test}:
        raise ValueError(
            "--disaggregation-decode-enable-radix-cache is incompatible "
            "with speculative decoding "
        )
"""
_SWA = """
def earlier(): ...
def build(args):
    raise ValueError(
        "--disaggregation-decode-enable-radix-cache is incompatible "
        "with sliding window attention (SWA) models"
    )
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """An empty release."""
    for folder in ("mem_cache", "arg_groups", "speculative"):
        (tmp_path / "sglang" / "srt" / folder).mkdir(parents=True)
    return tmp_path


def write(root: Path, place: str, text: str) -> None:
    (root / "sglang" / "srt" / place).write_text(text, encoding="utf-8")


def test_a_release_that_refuses_nothing_excludes_nothing(sources: Path) -> None:
    write(sources, "speculative/dflash_disaggregation.py", "")
    assert excluded(sources) == {}
    assert pairs_tree_with_drafts(sources)


def test_the_function_is_named(sources: Path) -> None:
    """It is the last one before the message, which may be cut into several strings."""
    write(sources, "mem_cache/kv_cache_builder.py", _SWA)
    assert excluded(sources)["disagg", "tree"].startswith("build refuses --disaggregation-decode-enable-radix-cache")


@pytest.mark.parametrize(
    ("test", "key"),
    [
        ("is not None", ("disagg", "tree", "spec")),
        ('not in (None, "DSPARK")', ("disagg", "tree", "spec")),
        ('not in (None, "DSPARK", "EAGLE", "EAGLE3")', ("disagg", "tree", "dflash")),
    ],
)
def test_which_drafts_a_tree_goes_with(sources: Path, test: str, key: tuple[str, ...]) -> None:
    write(sources, "arg_groups/speculative_hook.py", _DRAFTS.replace("{test}", test))
    assert key in excluded(sources)
    assert pairs_tree_with_drafts(sources) == (key[-1] == "dflash")
