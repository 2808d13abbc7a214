"""The shape of one cache: pool sizes, page size, layers, pool and policy."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

__all__ = [
    "CHECKS", "END_TOKEN", "EVICTION_POLICIES", "FEATURES", "FULL", "LEVELS", "MAX_CONTEXT", "SPEC_VERSIONS", "SWA",
    "TITLES", "TOKENS_WITHOUT_LIMIT", "WRITE_POLICIES",
    "Config", "ConfigError",
]  # fmt: skip

LEVELS = ("allocator", "engine")

TITLES = {
    "disagg": "disaggregated decode",
    "spec": "speculative decode",
    "graphs": "captured graphs",
    "scheduler": "a scheduler",
    "overlap": "two batches in flight",
}
"""Feature of the engine level -> what it is, for messages. A scheduler admits by its own budgets."""

FEATURES = tuple(TITLES)
"""Features of the engine level."""

CHECKS = ("hits",)
"""Checks of the engine level that are off unless a tape asks for them."""

FULL = "full"
SWA = "swa"

WRITE_POLICIES = ("write_through", "write_back")

EVICTION_POLICIES = ("lru", "lfu", "fifo", "mru", "filo", "priority")
"""Which leaf of a prefix tree gives up its full slots first: the least recently used, the least often inserted, the
first made, the most recently used, the last made, or that of the lowest priority. SWA slots always go by recency."""

SPEC_VERSIONS = ("v1", "v2", "dflash")
"""Ways to give slots to a draft. V1 takes them and returns them at once. V2 keeps them ahead of the committed tokens.
DFLASH's draft, a chain without its own keys, does the same in separate code."""

MAX_SIZE = 1 << 16
MAX_HOST_SIZE = 4 * MAX_SIZE
MAX_LAYERS = 128
MAX_SPEC = 16
MAX_CONTEXT = 4096

END_TOKEN = 0
"""The token that ends a request when it is sampled, where a tape says what is sampled."""

TOKENS_WITHOUT_LIMIT = 96
"""Tokens of a request at most in a tape whose config has no context length."""


class ConfigError(ValueError):
    """A configuration with which no engine can start; the message names the broken rule."""


def _of(feature: str, default: Any) -> Any:
    """A field of `Config` that only caches with this feature have; the others hold the default."""
    return field(default=default, metadata={"feature": feature})


@dataclass(frozen=True)
class Config:
    """What a cache is built from. Part of every tape.

    Attributes:
        pool: ``"hybrid"`` (separate full and SWA pools, SGLang's ``SWAKVPool``) or ``"dsv4"``
            (a DeepSeek-V4-like pool, which stores every layer's raw KV in the SWA pool).
        policy: how the target caches the translation; ``"native"`` for a real engine.
        page_size: tokens a page.
        full_size: slots of the full pool, in tokens, the dummy page not counted.
        swa_size: slots of the SWA pool, in tokens, the dummy page not counted.
        layers: the kind of each layer, ``"full"`` or ``"swa"``, in the order of a forward.
        window: sliding window, in tokens.
        need_sort: the allocator sorts released pages before it hands them out again.
        dtype: name of the torch dtype of the KV buffers.
        level: ``"allocator"`` (single calls) or ``"engine"`` (whole requests and a prefix tree).
        host_full_size: slots of the host's full pool, in tokens; 0 for no host tier.
        host_swa_size: slots of the host's SWA pool, in tokens.
        context_len: the model's context length in tokens; 0 for none. The engine makes the rows of its request table as
            long as this and its own reserve, and refuses or ends longer requests.
        write_policy: when a node is copied to the host: ``"write_through"`` or ``"write_back"``.
        features: the active `FEATURES`, in their order; at the engine level only.
        reserved_decode: with disaggregated decode, decode tokens reserved for each active request.
        decode_tree: with disaggregated decode, the decode node keeps a prefix tree.
        spec_version: with speculative decode, one of `SPEC_VERSIONS`.
        spec_steps: tokens of the draft's longest path, the bonus not counted.
        spec_topk: tokens of the draft at one depth at most; 1 for a chain.
        spec_draft_tokens: tokens that are verified in one step, the bonus included; of a chain `spec_steps` + 1.
        bigram: the prefix tree is keyed by pairs of tokens, because the draft's KV depends on the next token (EAGLE).
        chunk: with a scheduler, tokens of a prefill batch at most; 0 if prompts are never cut into chunks.
        max_prefill: with a scheduler, input tokens of a prefill batch at most, beyond its first prompt.
        prefix_cache: with a scheduler, finished requests stay in a prefix tree.
        new_token_ratio: with a scheduler, how many percent of their new tokens running requests are expected to need.
        eviction_policy: one of `EVICTION_POLICIES`; with a prefix tree only.
        priorities: with the policy ``"priority"``, those of requests: request n has number n of them, and starts again
            from the first after the last.
        switches: what the target does otherwise than it does by default, by the names that its profile has.
        checks: the `CHECKS` that are made besides those that always are, in their order; at the engine level only.
    """

    pool: str = "hybrid"
    policy: str = "native"
    page_size: int = 1
    full_size: int = 32
    swa_size: int = 16
    layers: tuple[str, ...] = (FULL, SWA)
    window: int = 8
    need_sort: bool = False
    dtype: str = "float32"
    level: str = "allocator"
    context_len: int = 0
    host_full_size: int = 0
    host_swa_size: int = 0
    write_policy: str = "write_through"
    features: tuple[str, ...] = ()
    reserved_decode: int = _of("disagg", 0)
    decode_tree: bool = _of("disagg", False)
    spec_version: str = _of("spec", "v2")
    spec_steps: int = _of("spec", 1)
    spec_topk: int = _of("spec", 1)
    spec_draft_tokens: int = _of("spec", 2)
    bigram: bool = _of("spec", False)
    chunk: int = _of("scheduler", 0)
    max_prefill: int = _of("scheduler", 0)
    prefix_cache: bool = _of("scheduler", True)
    new_token_ratio: int = _of("scheduler", 0)
    checks: tuple[str, ...] = ()
    eviction_policy: str = EVICTION_POLICIES[0]
    priorities: tuple[int, ...] = ()
    switches: tuple[str, ...] = ()

    @property
    def unused(self) -> dict[str, tuple[str, ...]]:
        """The fields of each feature that is not active, by feature."""
        owners = {it.name: it.metadata.get("feature") for it in fields(self)}
        inactive = [feature for feature in FEATURES if feature not in self.features]
        return {feature: tuple(name for name in owners if owners[name] == feature) for feature in inactive}

    @property
    def full_pages(self) -> int:
        """Pages of the full pool, the dummy page not counted."""
        return self.full_size // self.page_size

    @property
    def swa_pages(self) -> int:
        """Pages of the SWA pool, the dummy page not counted."""
        return self.swa_size // self.page_size

    def pages(self, tokens: int) -> int:
        """How many pages `tokens` tokens take, starting on a page boundary."""
        return -(-tokens // self.page_size)

    @property
    def most_tokens(self) -> int:
        """Tokens that a request may have, the last sampled one included. A scheduler clips ``max_new_tokens`` so that a
        request ends two tokens below the context length (SGLang's ``max_req_len``, all driven releases)."""
        return self.context_len - 2 if self.context_len else TOKENS_WITHOUT_LIMIT

    @property
    def longest_prompt(self) -> int:
        """Tokens of a prompt at most: a server refuses more (SGLang's ``max_req_input_len``, all driven releases)."""
        return self.context_len - 7 if self.context_len else TOKENS_WITHOUT_LIMIT

    def goes_on(self, known: int, appended: int) -> bool:
        """Whether a request takes another step: it has `known` tokens, and the step appends up to `appended`.

        A scheduler looks at the tokens that it knows only, so the last step may go beyond `most_tokens`.
        """
        return known < self.most_tokens if self.context_len else known + appended <= TOKENS_WITHOUT_LIMIT

    @property
    def keeps_tree(self) -> bool:
        """Whether requests that are done stay in a prefix tree."""
        return self.level == "engine" and self.prefix_cache and ("disagg" not in self.features or self.decode_tree)

    def priority_of(self, request: int) -> int:
        """The priority with which a request's tokens are inserted; larger ones stay longer."""
        return self.priorities[request % len(self.priorities)] if self.priorities else 0

    @property
    def spec_ahead(self) -> bool:
        """Whether speculative decode keeps slots ahead of the committed tokens."""
        return "spec" in self.features and self.spec_version != "v1"

    @property
    def possible(self) -> bool:
        """Whether `check` passes."""
        try:
            self.check()
        except ConfigError:
            return False
        return True

    def check(self) -> None:
        """Raise ConfigError unless a cache of this shape can exist."""
        if self.page_size < 1:
            raise ConfigError("page_size must be at least 1")
        for name in ("full_size", "swa_size"):
            size = getattr(self, name)
            if size < self.page_size or size % self.page_size:
                raise ConfigError(f"{name} must be a positive multiple of page_size {self.page_size}, not {size}")
        self._check_host()
        if self.swa_size > self.full_size:
            raise ConfigError("swa_size must not exceed full_size: each SWA slot belongs to a full loc")
        if self.full_size > MAX_SIZE or len(self.layers) > MAX_LAYERS:
            raise ConfigError(
                f"a cache under test has at most {MAX_SIZE} slots and {MAX_LAYERS} layers; make it smaller"
            )
        if not self.layers or any(kind not in (FULL, SWA) for kind in self.layers):
            raise ConfigError('layers must name at least one layer, each "full" or "swa"')
        if SWA not in self.layers:
            raise ConfigError("at least one layer must be a sliding-window layer")
        if self.window < 1:
            raise ConfigError("window must be at least 1")
        if self.context_len and (self.level != "engine" or not 16 <= self.context_len <= MAX_CONTEXT):
            raise ConfigError(
                f"context_len must be 0, or at the engine level 16 to {MAX_CONTEXT}, not {self.context_len}"
            )
        if self.features != tuple(name for name in FEATURES if name in self.features):
            raise ConfigError(f"features must be some of {', '.join(FEATURES)}, each once and in this order")
        if self.features and self.level != "engine":
            raise ConfigError("features are of the engine level")
        if self.checks != tuple(name for name in CHECKS if name in self.checks):
            raise ConfigError(f"checks must be some of {', '.join(CHECKS)}, each once and in this order")
        if self.checks and self.level != "engine":
            raise ConfigError("checks that are asked for are of the engine level")
        self._check_unused()
        self._check_eviction()
        if not 0 <= self.reserved_decode <= MAX_SIZE:
            raise ConfigError(f"reserved_decode must be 0 to {MAX_SIZE}, not {self.reserved_decode}")
        self._check_spec()
        self._check_scheduler()

    def _check_scheduler(self) -> None:
        if "scheduler" not in self.features:
            if "overlap" in self.features:
                raise ConfigError("overlap takes a scheduler; add the feature scheduler")
            return
        if not 0 <= self.chunk <= MAX_SIZE or self.chunk % self.page_size:
            raise ConfigError(f"chunk must be 0 or a multiple of page_size {self.page_size}, not {self.chunk}")
        if not 1 <= self.max_prefill <= MAX_SIZE:
            raise ConfigError(f"max_prefill must be 1 to {MAX_SIZE}, not {self.max_prefill}")
        if not 0 <= self.new_token_ratio <= 100:
            raise ConfigError(f"new_token_ratio must be 0 to 100, not {self.new_token_ratio}")
        before = self.pages(max(1, self.window - 1)) * self.page_size
        if self.swa_size < 2 * before + self.page_size:
            raise ConfigError(f"a scheduler takes swa_size for two windows and a page, {2 * before + self.page_size}")
        if self.host_full_size and not self.prefix_cache:
            raise ConfigError("a host tier takes a prefix tree; prefix_cache must be true")

    def _check_eviction(self) -> None:
        if self.eviction_policy not in EVICTION_POLICIES:
            known = ", ".join(EVICTION_POLICIES)
            raise ConfigError(f"eviction_policy must be one of {known}, not {self.eviction_policy}")
        if self.eviction_policy != EVICTION_POLICIES[0] and not self.keeps_tree:
            raise ConfigError(f"eviction_policy {self.eviction_policy} takes a prefix tree")
        if bool(self.priorities) != (self.eviction_policy == "priority"):
            raise ConfigError("priorities are of the eviction_policy priority, which takes one or more")
        if self.switches != tuple(sorted(set(self.switches))) or (self.switches and self.level != "engine"):
            raise ConfigError("switches are of the engine level, each once and in alphabetical order")

    def _check_unused(self) -> None:
        plain = Config()
        for feature, names in self.unused.items():
            if any(getattr(self, name) != getattr(plain, name) for name in names):
                *first, last = names
                listed = f"{', '.join(first)} and {last} are" if first else f"{last} is"
                raise ConfigError(f"{listed} of {TITLES[feature]}")

    def _check_spec(self) -> None:
        if "spec" not in self.features:
            return
        if self.spec_version not in SPEC_VERSIONS:
            raise ConfigError(f"spec_version must be one of {', '.join(SPEC_VERSIONS)}, not {self.spec_version}")
        if self.spec_version == "dflash" and (self.spec_topk > 1 or self.bigram):
            raise ConfigError("dflash has neither trees nor bigrams")
        if not 1 <= self.spec_steps <= MAX_SPEC or not 1 <= self.spec_topk <= MAX_SPEC:
            raise ConfigError(f"spec_steps and spec_topk must be 1 to {MAX_SPEC}")
        most = 1 + self.spec_topk * self.spec_steps
        if not 2 <= self.spec_draft_tokens <= most or (self.spec_topk == 1 and self.spec_draft_tokens != most):
            raise ConfigError(f"spec_draft_tokens must be 2 to {most}, and {most} for a chain")

    def _check_host(self) -> None:
        if self.write_policy not in WRITE_POLICIES:
            raise ConfigError(f"write_policy must be one of {', '.join(WRITE_POLICIES)}, not {self.write_policy}")
        for name in ("host_full_size", "host_swa_size"):
            size = getattr(self, name)
            if not 0 <= size <= MAX_HOST_SIZE or size % self.page_size:
                raise ConfigError(
                    f"{name} must be 0 or a multiple of page_size {self.page_size} up to {MAX_HOST_SIZE}, not {size}"
                )
        if (self.host_full_size == 0) != (self.host_swa_size == 0):
            raise ConfigError(
                "a host tier has slots of both kinds; host_full_size and host_swa_size are 0 or neither is"
            )
