"""The flags of a server: which features and fields they give, what is scaled, and what is ignored."""

from __future__ import annotations

from typing import Any

import pytest

from staleloc.sim.targets.base import TargetError
from staleloc.sim.targets.family import ServerShape
from staleloc.sim.targets.registry import families, parse
from staleloc.sim.targets.sglang import server_flags

EAGLE = "--speculative-algorithm EAGLE --speculative-num-steps 3 --speculative-eagle-topk 1 "


def read(text: str, *features: str) -> ServerShape:
    return parse("sglang==0.5.23").family.read_server(text, features)


def test_a_server_with_drafts_and_a_host_tier() -> None:
    """What decides how slots are used is kept: pages, host tier and draft. The window is scaled by whole pages."""
    shape = read(
        "python -m sglang.launch_server --model-path x --page-size=64 --enable-hierarchical-cache \\\n"
        f"--hicache_write_policy write_through {EAGLE} --speculative-num-draft-tokens 4 --context-length 131072 "
        """--json-model-override-args '{"sliding_window": 4096}'"""
    )
    assert shape.features == ("spec",)
    assert shape.pins == {
        "page_size": 64, "host": True, "write_policy": "write_through", "spec_version": "v2", "bigram": True,
        "spec_steps": 3, "spec_topk": 1, "spec_draft_tokens": 4, "window": 256, "context_len": 768,
    }  # fmt: skip
    assert shape.scaled == (
        "--json-model-override-args 4096 to window=256", "--context-length 131072 to context_len=768",
    )  # fmt: skip
    assert shape.ignored == (("--model-path", "not about the KV cache"),)


@pytest.mark.parametrize(
    ("text", "features", "pins"),
    [
        ("--disaggregation-mode decode", ("disagg",), {"decode_tree": False}),
        ("--disaggregation-mode decode --disaggregation-decode-enable-radix-cache --num-reserved-decode-tokens 512",
         ("disagg",), {"decode_tree": True, "reserved_decode": 32}),
        ("--disaggregation-decode-enable-offload-kvcache --disaggregation-mode decode", ("disagg", "host"), {}),
        ("--speculative-algorithm DFLASH --speculative-num-draft-tokens 8", ("spec",),
         {"spec_version": "dflash", "spec_draft_tokens": 8}),
        ("--speculative-algorithm standalone", ("spec",), {"spec_version": "v2", "bigram": False}),
        (f"{EAGLE}--speculative-num-draft-tokens 9", ("spec",),
         {"spec_version": "v2", "bigram": True, "spec_steps": 3, "spec_topk": 1, "spec_draft_tokens": 4}),
        ("--context-length 90 --page-size 1", (), {"page_size": 1, "context_len": 32}),
        ("--context-length 40 --page-size 16", (), {"page_size": 16, "context_len": 40}),
        ("--page-size 16 --context-length 1001", (), {"page_size": 16, "context_len": 121}),
        ("server_args=ServerArgs(model_path='m', page_size=64, tp_size=8, x=[1], y=Z(1), chunked_prefill_size=-1, "
         "enable_hierarchical_cache=True, speculative_algorithm=None, disable_radix_cache=False)", (),
         {"page_size": 64, "host": True}),
    ],
)  # fmt: skip
def test_flags_and_what_they_give(text: str, features: tuple[str, ...], pins: dict[str, Any]) -> None:
    """As typed, and as a server logs them at its start."""
    shape = read(text)
    assert (shape.features, shape.pins) == (features, pins)


def test_a_scheduler_reads_its_flags() -> None:
    """Only tapes with a scheduler have chunks of prompts; without one they are ignored, with what to do."""
    text = "--page-size 4 --chunked-prefill-size 8194 --max-prefill-tokens 20 --disable-radix-cache"
    assert read(text, "scheduler").pins == {"page_size": 4, "chunk": 32, "max_prefill": 20, "prefix_cache": False}
    assert {why for _, why in read(text).ignored} == {"it needs a scheduler; add --features scheduler"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("--page-sizes 4", "not in the table of flags that are read"),
        ("--hicache-ratio 2", "host pools are drawn, smaller and larger than the device's"),
        ("--hicache-write-policy write_back", "there is no host tier without --enable-hierarchical-cache"),
        ("--speculative-algorithm NGRAM", "NGRAM is not driven; the tapes decode without drafts"),
        ("--speculative-num-steps 3", "there is no draft without --speculative-algorithm, or not one that is driven"),
        ("--num-reserved-decode-tokens 3", "it is a flag of a decode node"),
        ("--disaggregation-mode prefill", "prefill nodes are not driven; the tapes are those of a node that also "
         "decodes"),
        ("--json-model-override-args {}", "it names no sliding_window"),
    ],
)  # fmt: skip
def test_an_ignored_flag_has_a_reason(text: str, why: str) -> None:
    """Nothing that was given is left out in silence."""
    assert read(text).ignored == ((text.split()[0], why),)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("--page-size big", "--page-size takes a whole number, not 'big'"),
        ("--disaggregation-mode both", "--disaggregation-mode is one of null, prefill, decode, not 'both'"),
        ("--json-model-override-args {", "--json-model-override-args is no JSON; quote it as in the shell"),
        ("page-size 4", "--server-args holds no flag, as in --server-args '--page-size 64'"),
        ("--page-size '4", "cannot be read (No closing quotation); quote it as in the shell"),
        ("ServerArgs(page_size=)", "ServerArgs(...) cannot be read; copy it whole, or give flags"),
    ],
)
def test_flags_that_cannot_be_read(text: str, told: str) -> None:
    """One line says what is wrong."""
    with pytest.raises(TargetError) as error:
        read(text)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_a_flag_is_in_one_table() -> None:
    """A flag that is read is not also one that is ignored."""
    assert not {*server_flags._READ} & {*server_flags._OTHERS, *server_flags._ELSEWHERE}
    assert not {*server_flags._OTHERS} & server_flags._ELSEWHERE


def test_a_family_without_a_table_says_so() -> None:
    """The embedded target has no server."""
    with pytest.raises(TargetError, match="not known here; give --features and --config"):
        families()[0].read_server("--page-size 4", ())
