"""What the flags of an SGLang server say about its KV cache: features and fields of a config, scaled to small pools.

The page size, the host tier, the draft and the kind of node are kept as they are. Lengths are scaled: tapes are short
and pools small, so that slots are used again soon. Of a length, its place in a page is kept.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Callable
from typing import Any

from ....models.config import EVICTION_POLICIES, MAX_CONTEXT
from ..base import HOST, TargetError
from ..family import ServerShape

__all__ = ["read_server"]

_OTHERS = {
    "hicache-ratio": "host pools are drawn, smaller and larger than the device's",
    "hicache-size": "host pools are drawn, smaller and larger than the device's",
    "hicache-io-backend": "copies are made on the CPU",
    "hicache-mem-layout": "copies are made on the CPU",
    "hicache-storage-backend": "storage behind the host tier is not driven",
    "max-total-tokens": "pools are drawn small, so that slots are used again soon",
    "mem-fraction-static": "pools are drawn small, so that slots are used again soon",
    "swa-full-tokens-ratio": "ratios of the pools are drawn",
    "max-running-requests": "numbers of requests are drawn",
    "kv-cache-dtype": "which slot a token has does not depend on it",
    "schedule-conservativeness": "with --features scheduler, ratios of new tokens are drawn",
    "schedule-policy": "arrivals and admissions are drawn",
    "disable-overlap-schedule": "two batches are in flight only with --features scheduler+overlap",
    "disable-cuda-graph": "no graphs are captured here",
    "cuda-graph-max-bs": "no graphs are captured here",
    "disable-hybrid-swa-memory": "a cache without a pool of its own for windows is not driven; the tapes have one",
    "enable-mixed-chunk": "batches that mix prefill and decode are not driven",
    "speculative-draft-model-path": "drafts are drawn",
    "speculative-attention-mode": "attention is not computed",
    "attention-backend": "attention is not computed",
}
"""Flags that change nothing here -> why."""

_ELSEWHERE = frozenset(
    (
        *("model", "model-path", "tokenizer-path", "served-model-name", "load-format", "trust-remote-code"),
        *("quantization", "dtype"),
        *("host", "port", "api-key", "chat-template", "reasoning-parser", "tool-call-parser"),
        *("tp", "tp-size", "tensor-parallel-size", "dp", "dp-size", "data-parallel-size"),
        *("pp-size", "ep-size", "nnodes", "node-rank", "dist-init-addr"),
        *("disaggregation-transfer-backend", "disaggregation-bootstrap-port", "disaggregation-ib-device"),
        *("log-level", "enable-metrics", "random-seed", "watchdog-timeout"),
    )
)  # fmt: skip
"""Flags that have nothing to do with the KV cache of one worker."""

_MOST_PAGES = 4
"""Pages of a scaled length."""


class _Reader:
    """Reads one server's flags.

    Attributes:
        asked: features that are asked for beside the flags.
    """

    def __init__(self, flags: dict[str, str], asked: tuple[str, ...]) -> None:
        self.flags = flags
        self.features = set(asked)
        self.pins: dict[str, Any] = {}
        self.scaled: list[str] = []
        self.ignored: list[tuple[str, str]] = []

    def read(self) -> ServerShape:
        """Features, pins, and what became of the other flags."""
        for flag in (*(it for it in _READ if it in self.flags), *(it for it in self.flags if it not in _READ)):
            if flag in _READ:
                _READ[flag](self, flag)
            elif flag in _ELSEWHERE:
                self.ignore(flag, "not about the KV cache")
            else:
                self.ignore(flag, _OTHERS.get(flag, "not in the table of flags that are read"))
        self.finish_draft()
        return ServerShape(tuple(sorted(self.features)), self.pins, tuple(self.scaled), tuple(self.ignored))

    def ignore(self, flag: str, why: str) -> None:
        self.ignored.append((f"--{flag}", why))

    def number(self, flag: str) -> int:
        try:
            return int(self.flags[flag])
        except ValueError:
            raise TargetError(f"--server-args: --{flag} takes a whole number, not {self.flags[flag]!r}") from None

    def word(self, flag: str, known: tuple[str, ...]) -> str:
        word = self.flags[flag].strip()
        found = next((it for it in known if it.lower() == word.lower()), None)
        if found is None:
            raise TargetError(f"--server-args: --{flag} is one of {', '.join(known)}, not {word!r}")
        return found

    @property
    def page(self) -> int:
        size: int = self.pins.get("page_size", 16)
        return size

    def scale(self, flag: str, name: str, value: int, least: int, most: int) -> None:
        """Pin a length, made shorter by whole pages if it is more than `most`; it stays above `least`."""
        if value > most:
            small = most - most % self.page + value % self.page
            small -= self.page if small > most else 0
            small = max(least, small)
            self.scaled.append(f"--{flag} {value} to {name}={small}")
            value = small
        self.pins[name] = value

    # One flag each

    def page_size(self, flag: str) -> None:
        self.pins["page_size"] = self.number(flag)

    def overrides(self, flag: str) -> None:
        """The model's sliding window, which a server takes from the model and not from a flag."""
        try:
            values = json.loads(self.flags[flag])
        except ValueError:
            raise TargetError(f"--server-args: --{flag} is no JSON; quote it as in the shell") from None
        window = values.get("sliding_window", values.get("sliding_window_size")) if isinstance(values, dict) else None
        if not isinstance(window, int) or window < 1:
            self.ignore(flag, "it names no sliding_window")
            return
        self.scale(flag, "window", window, 1, max(8, _MOST_PAGES * self.page))

    def host(self, flag: str) -> None:
        self.pins[HOST] = True

    def write_policy(self, flag: str) -> None:
        if "enable-hierarchical-cache" not in self.flags:
            self.ignore(flag, "there is no host tier without --enable-hierarchical-cache")
            return
        policy = self.word(flag, ("write_back", "write_through", "write_through_selective"))
        if policy == "write_through_selective":
            self.ignore(flag, "write_through is played, which copies a node at its first hit and not at its second")
        self.pins["write_policy"] = policy.removesuffix("_selective")

    def node(self, flag: str) -> None:
        mode = self.word(flag, ("null", "prefill", "decode"))
        if mode == "prefill":
            self.ignore(flag, "prefill nodes are not driven; the tapes are those of a node that also decodes")
        if mode == "decode":
            self.features.add("disagg")
            self.pins["decode_tree"] = "disaggregation-decode-enable-radix-cache" in self.flags

    def of_decode_node(self, flag: str) -> None:
        if "disagg" not in self.features:
            self.ignore(flag, "it is a flag of a decode node")
        elif flag == "num-reserved-decode-tokens":
            self.scale(flag, "reserved_decode", self.number(flag), 0, 2 * self.page)
        elif flag == "disaggregation-decode-enable-offload-kvcache":
            self.features.add(HOST)
            del self.pins["decode_tree"]

    def of_scheduler(self, flag: str) -> None:
        if "scheduler" not in self.features:
            self.ignore(flag, "it needs a scheduler; add --features scheduler")
        elif flag == "disable-radix-cache":
            self.pins["prefix_cache"] = False
        else:
            name = "chunk" if flag == "chunked-prefill-size" else "max_prefill"
            value = max(0, self.number(flag))
            value -= value % self.page if name == "chunk" else 0
            self.scale(flag, name, value, self.page if value else 0, 2 * _MOST_PAGES * self.page)

    def eviction(self, flag: str) -> None:
        policy = self.flags[flag].strip().lower()
        if policy not in EVICTION_POLICIES:
            self.ignore(flag, f"{policy} is not driven; those that are: {', '.join(EVICTION_POLICIES)}")
        elif self.pins.get("decode_tree", True) and self.pins.get("prefix_cache", True):
            self.pins["eviction_policy"] = policy
        else:
            self.ignore(flag, "the server keeps no prefix tree")

    def context(self, flag: str) -> None:
        window: int = self.pins.get("window", 2 * self.page)
        least = min(MAX_CONTEXT, max(16, window + 2 * self.page))
        self.scale(flag, "context_len", self.number(flag), least, min(MAX_CONTEXT, 2 * least))

    def algorithm(self, flag: str) -> None:
        known = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "DFLASH", "NGRAM", "DSPARK")
        algorithm = self.word(flag, known)
        if algorithm in ("NGRAM", "DSPARK"):
            self.ignore(flag, f"{algorithm} is not driven; the tapes decode without drafts")
            return
        self.features.add("spec")
        self.pins["spec_version"] = "dflash" if algorithm == "DFLASH" else "v2"
        if algorithm != "DFLASH":
            self.pins["bigram"] = algorithm != "STANDALONE"

    def of_draft(self, flag: str) -> None:
        if "spec" not in self.features:
            self.ignore(flag, "there is no draft without --speculative-algorithm, or not one that is driven")
            return
        names = {"speculative-num-steps": "spec_steps", "speculative-eagle-topk": "spec_topk",
                 "speculative-num-draft-tokens": "spec_draft_tokens"}  # fmt: skip
        self.pins[names[flag]] = self.number(flag)

    def finish_draft(self) -> None:
        """A chain's length says how many tokens it has, as the server corrects it too."""
        pins = self.pins
        if pins.get("spec_version") == "dflash":
            pins.pop("spec_topk", None)
            pins.pop("spec_steps", None)
        elif pins.get("spec_topk") == 1 and "spec_steps" in pins:
            pins["spec_draft_tokens"] = pins["spec_steps"] + 1


_READ: dict[str, Callable[[_Reader, str], None]] = {
    "page-size": _Reader.page_size,
    "json-model-override-args": _Reader.overrides,
    "enable-hierarchical-cache": _Reader.host,
    "hicache-write-policy": _Reader.write_policy,
    "disaggregation-mode": _Reader.node,
    "disaggregation-decode-enable-radix-cache": _Reader.of_decode_node,
    "disaggregation-decode-enable-offload-kvcache": _Reader.of_decode_node,
    "num-reserved-decode-tokens": _Reader.of_decode_node,
    "disable-radix-cache": _Reader.of_scheduler,
    "chunked-prefill-size": _Reader.of_scheduler,
    "max-prefill-tokens": _Reader.of_scheduler,
    "radix-eviction-policy": _Reader.eviction,
    "context-length": _Reader.context,
    "speculative-algorithm": _Reader.algorithm,
    "speculative-num-steps": _Reader.of_draft,
    "speculative-eagle-topk": _Reader.of_draft,
    "speculative-num-draft-tokens": _Reader.of_draft,
}
"""Flags that are read, in the order in which they must be."""


def read_server(text: str, features: tuple[str, ...]) -> ServerShape:
    """See `Family.read_server`: flags as they are typed, or ``ServerArgs(...)`` as a server logs them at its start."""
    flags = _logged(text) if "ServerArgs(" in text else _typed(text)
    if not flags:
        raise TargetError("--server-args holds no flag, as in --server-args '--page-size 64'")
    return _Reader(flags, features).read()


def _typed(text: str) -> dict[str, str]:
    try:
        words = shlex.split(text.replace("\\\n", " "))
    except ValueError as error:
        raise TargetError(f"--server-args cannot be read ({error}); quote it as in the shell") from None
    flags: dict[str, str] = {}
    flag = ""
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            flag = name.replace("_", "-")
            flags[flag] = value
        elif flag:
            flags[flag] = f"{flags[flag]} {word}".strip()
    return flags


def _logged(text: str) -> dict[str, str]:
    """The fields of ``ServerArgs(...)`` that are set."""
    start = text.index("ServerArgs(")
    try:
        call = ast.parse(text[start : text.rindex(")") + 1], mode="eval").body
        assert isinstance(call, ast.Call)
        values = {str(it.arg): ast.literal_eval(it.value) for it in call.keywords if _is_literal(it.value)}
    except (SyntaxError, ValueError, AssertionError, RecursionError):
        raise TargetError("--server-args: ServerArgs(...) cannot be read; copy it whole, or give flags") from None
    return {
        re.sub("_", "-", name): "" if value is True else str(value)
        for name, value in values.items()
        if value is not None and value is not False and name.replace("_", "-") in _READ
    }


def _is_literal(node: ast.expr) -> bool:
    return all(isinstance(it, ast.Constant | ast.UnaryOp | ast.USub | ast.expr_context) for it in ast.walk(node))
