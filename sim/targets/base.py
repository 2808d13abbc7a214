"""The protocol of every target: its calls, the raw state that a check may read, its capabilities, and their choice.

A target translates plain integers into the engine's own calls and back. It knows nothing of the reference model, and a
check knows nothing of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, TypeVar

from ...models.config import EVICTION_POLICIES, FEATURES, FULL, LEVELS, Config

__all__ = [
    "ASKED", "CALLS", "HOST", "MISFITS", "MORE_PAGES", "SIZES", "V_MARK",
    "Batch", "CacheTarget", "FreeSlots", "KeyChangedWarning", "Pins", "Profile", "Rows", "Scope", "Target",
    "TargetError", "of_requests", "shown_pins",
]  # fmt: skip

T = TypeVar("T")

Pins = tuple[tuple[str, Any], ...]
"""Fields of a config that have one value in every tape, each with it, in the order of `Config`. `HOST` is whether there
is a host tier; see `staleloc.sim.targets.pins` for how they are written."""

MORE_PAGES = (2, 8, 16, 32, 64, 128, 256)
"""Page sizes of servers that the engine level takes if they are asked for; see `Profile.more_pages`."""

_FEATURE_OF: dict[str, str | None] = {it.name: it.metadata.get("feature") for it in fields(Config)}

SIZES = ("full_size", "swa_size", "host_full_size", "host_swa_size", "chunk")
"""Fields that are a multiple of `Config.page_size`."""

_OF_REQUESTS = ("context_len", "host_full_size", "host_swa_size", "write_policy", "eviction_policy")
"""Fields that only tapes of the engine level have, besides those of features."""

HOST = "host"
"""The value that requests the host tier of a decode node; see `Profile.asks`."""

ASKED = (*FEATURES, HOST)
"""The possible values of ``--features``."""

V_MARK = 1 << 32
"""Added to a tag in a value row, so that a check notices mixed-up keys and values."""


MISFITS = (AttributeError, TypeError, ImportError, NameError, LookupError)
"""Exceptions that mean that names, parameters or fields are unknown to an adapter."""


class TargetError(Exception):
    """A target cannot be loaded or driven; the message is one line with the remedy."""


class KeyChangedWarning(UserWarning):
    """Two layers of one forward wrote with different loc tensors, so the memo has no effect."""


@dataclass(frozen=True)
class Profile:
    """One way a target can be driven. The generator draws only from what a profile states.

    Attributes:
        level: see `Config.level`.
        pool: ``"hybrid"`` or ``"dsv4"``; see `Config.pool`.
        policies: values of `Config.policy` this pool takes.
        page_sizes: page sizes it takes.
        more_pages: page sizes that it takes too, and that only a pin asks for; see `Pins`. Their tapes are slow.
        dtypes: names of torch dtypes it takes.
        events: kinds of the events it can execute.
        missing: kind -> one line why the target has no such event.
        all_swa: every layer is an SWA layer.
        per_forward: the caller translates once a forward and hands the result to every layer, so no
            mapping of a running batch may change before the forward ends (SGLang PRs 27091, 27617).
        restores_mapping: ``restore`` restores the mapping too. Otherwise entries of free slots may keep their last
            value until the slot is allocated again.
        precomputed: the pool takes a translation made up front (``set_swa_loc``, SGLang PR 24138).
        host: at the engine level, whether there can be a host tier.
        small_host: host pools may have any size. Otherwise each must be larger than its
            device pool (SGLang's ``memory_pool_host`` asserts it up to 0.5.14).
        features: the active features; see `Config.features`.
        decode_tree: a decode node driven this way can keep a prefix tree; see `Config.decode_tree`.
        unreachable: situation -> one line why this code cannot reach it with any tape.
        spec_versions: with speculative decode, values of `Config.spec_version` it takes.
        spec_chains: those of them that take no trees if pages have more than one token.
        spec_treeless: those of them with which a decode node keeps no prefix tree.
        eviction_policies: values of `Config.eviction_policy` its prefix tree takes.
        switches: name -> one line that says what it does; see `Config.switches`.
        excluded: parts that do not combine here (names of features, ``"tree"``, ``"host"``, a spec version) -> one line
            that says what refuses them.
        pins: fields of a config that have one value in every tape; see `Pins`.
    """

    pool: str
    policies: tuple[str, ...]
    page_sizes: tuple[int, ...]
    dtypes: tuple[str, ...]
    events: frozenset[str]
    missing: Mapping[str, str] = field(default_factory=dict, hash=False)
    all_swa: bool = False
    per_forward: bool = False
    restores_mapping: bool = True
    precomputed: bool = False
    level: str = "allocator"
    host: bool = False
    small_host: bool = False
    features: tuple[str, ...] = ()
    decode_tree: bool = False
    unreachable: Mapping[str, str] = field(default_factory=dict, hash=False)
    spec_versions: tuple[str, ...] = ()
    spec_chains: tuple[str, ...] = ()
    spec_treeless: tuple[str, ...] = ()
    eviction_policies: tuple[str, ...] = EVICTION_POLICIES[:1]
    switches: Mapping[str, str] = field(default_factory=dict, hash=False)
    excluded: Mapping[tuple[str, ...], str] = field(default_factory=dict, hash=False)
    more_pages: tuple[int, ...] = ()
    pins: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def pinned(self, name: str, drawn: T) -> T:
        """The value of a field in a tape: the pinned one, or else what was drawn."""
        value: T = self.pins.get(name, drawn)
        return value

    @property
    def all_pages(self) -> tuple[int, ...]:
        """Every page size it takes."""
        return tuple(sorted({*self.page_sizes, *self.more_pages}))

    def pinned_to(self, pins: Pins) -> Profile | None:
        """This way of driving with only what pins leave of it; None if one of them does not go with it."""
        if not pins:
            return self
        values = dict(pins)
        if any(not self._has(name, value) for name, value in pins):
            return None
        sizes = [values[name] for name in SIZES if name in values]
        wanted = (values["page_size"],) if "page_size" in values else self.page_sizes
        pages = tuple(page for page in wanted if all(size % page == 0 for size in sizes))
        if not pages:
            return None
        return replace(
            self,
            page_sizes=pages,
            policies=(values["policy"],) if "policy" in values else self.policies,
            dtypes=(values["dtype"],) if "dtype" in values else self.dtypes,
            spec_versions=(values["spec_version"],) if "spec_version" in values else self.spec_versions,
            host=self.host and values.get(HOST, True),
            decode_tree=self.decode_tree and values.get("decode_tree", True),
            pins=values,
        )

    def _has(self, name: str, value: Any) -> bool:
        """Whether a tape for a target driven this way can have this value in a field, as far as the profile says."""
        if name == HOST:
            return self.host if value else not (self.host and HOST in self.asks)
        if _FEATURE_OF[name] is not None and _FEATURE_OF[name] not in self.features:
            return False
        if name in _OF_REQUESTS and self.level != LEVELS[-1]:
            return False
        allowed: dict[str, tuple[Any, ...]] = {
            "pool": (self.pool,),
            "policy": self.policies,
            "page_size": self.all_pages,
            "dtype": self.dtypes,
            "spec_version": self.spec_versions,
            "eviction_policy": self.eviction_policies,
            "decode_tree": (True, *(() if HOST in self.asks else (False,))) if self.decode_tree else (False,),
        }
        if name == "layers":
            return not (self.all_swa and FULL in value)
        return name not in allowed or value in allowed[name]

    @property
    def asks(self) -> tuple[str, ...]:
        """The values of ``--features`` that ask for this way: its features, and `HOST` for a decode node's host tier.
        An engine that computes its prompts draws a host tier without being asked."""
        return (*self.features, *([HOST] if self.host and "disagg" in self.features else []))


@dataclass(frozen=True)
class Scope:
    """The selection of a target's profiles for a campaign.

    Attributes:
        level: see `Config.level`.
        features: what is asked for, see `Profile.asks`. Each tape has at least one of them, if there are any, and no
            other.
        together: each tape has all of them.
        checks: see `Config.checks`.
        pins: fields of the config that have one value in every tape. A profile that cannot have them is not selected.
    """

    level: str = LEVELS[0]
    features: tuple[str, ...] = ()
    together: bool = False
    checks: tuple[str, ...] = ()
    pins: Pins = ()

    def of(self, profiles: Iterable[Profile]) -> list[Profile]:
        """The selected profiles of a target, with only what the pins leave of each."""
        pinned = [profile.pinned_to(self.pins) for profile in self.selected(profiles)]
        return [profile for profile in pinned if profile is not None]

    def selected(self, profiles: Iterable[Profile]) -> list[Profile]:
        """The profiles of a target that have its level and features, whatever is pinned."""
        return [
            profile
            for profile in profiles
            if profile.level == self.level
            and bool(profile.asks) == bool(self.features)
            and set(profile.asks) <= set(self.features)
            and (not self.together or set(profile.asks) == set(self.features))
        ]

    def lacking(self, profiles: Iterable[Profile]) -> Scope | None:
        """A feature that no profile has; None if each feature has a profile."""
        drawn = self.selected(profiles)
        missing = tuple(name for name in self.features if not any(name in profile.asks for profile in drawn))
        if self.together:
            return None if drawn else self
        return Scope(self.level, missing) if missing or not drawn else None

    def to_json(self) -> dict[str, Any]:
        """The scope as JSON values."""
        values = {"level": self.level, "features": list(self.features), "together": self.together}
        return {**values, "checks": list(self.checks), "pins": [list(pin) for pin in self.pins]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Scope:
        """The scope from JSON values, which may contain more."""
        features, checks = tuple(values["features"]), tuple(values.get("checks", ()))
        pins = tuple((name, tuple(it) if isinstance(it, list) else it) for name, it in values.get("pins", ()))
        return cls(values["level"], features, bool(values["together"]), checks, pins)

    @property
    def options(self) -> list[str]:
        """The scope's options on the command line."""
        words = [] if self == Scope(pins=self.pins) else ["--level", self.level]
        if self.features:
            words += ["--features", ("+" if self.together else ",").join(self.features)]
        words += ["--checks", ",".join(self.checks)] if self.checks else []
        return [*words, "--config", shown_pins(self.pins)] if self.pins else words

    def __str__(self) -> str:
        joined = (" and " if self.together else " or ").join(self.features)
        pinned = f" and {shown_pins(self.pins)}" if self.pins else ""
        return f"the {self.level} level" + (f" with {joined}" if joined else "") + pinned


def of_requests(pins: Pins) -> bool:
    """Whether only tapes of whole requests can have these pins."""
    return any(name in _OF_REQUESTS or _FEATURE_OF.get(name) or (name == HOST and value) for name, value in pins)


def shown_pins(pins: Pins) -> str:
    """Pins as the command line takes them: ``page_size=64,host=on,layers=full+swa``."""
    return ",".join(f"{name}={_shown_value(value)}" for name, value in pins)


def _shown_value(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "+".join(value) if isinstance(value, tuple) else str(value)


@dataclass(frozen=True)
class Batch:
    """A forward's locs and the memory of their tensor. See `BeginForward`.

    `locs` are full locs, one a token.
    """

    locs: list[int]
    storage: str
    offset: int
    precomputed: bool


@dataclass(frozen=True)
class FreeSlots:
    """The allocator's free lists, in their order and multiplicity.

    Page numbers where the pool is paged, slot numbers where `Config.page_size` is 1.

    Attributes:
        room: tokens of the full and of the SWA pool that the allocator reports as available (a scheduler reads this
            before it admits); None if it is not read.
    """

    full: list[int]
    swa: list[int]
    room: tuple[int, int] | None = None


@dataclass(frozen=True)
class Rows:
    """Tags of KV rows: `keys`, and `values` with `V_MARK` added, or None where a pool has no values."""

    keys: list[int]
    values: list[int] | None


class CacheTarget(Protocol):
    """What can be built and read of any target, whole requests or single calls. ``raw_`` methods only read and must
    change nothing, not even a cache.

    Attributes:
        adapter: how the names of modules begin that stand between us and the engine; empty if none do.
    """

    name: str
    adapter: tuple[str, ...]
    profiles: tuple[Profile, ...]

    def build(self, config: Config) -> None:
        """Make a new, empty cache of this shape; the last one is dropped."""

    def declared(self, kind: str, call: Callable[[Any, Any, Any], None]) -> None:
        """Hand the allocator, the pool and None (the tree, at the engine level) themselves to `call`: an event of
        this kind, which a file of the user's declares (`staleloc.sim.declared`)."""

    def raw_mapping(self) -> list[int]:
        """The table itself, full loc -> SWA loc, without the final -1; length `full_size + page_size`."""

    def raw_free(self) -> FreeSlots:
        """The free lists."""

    def raw_contents(self, layer: int) -> Rows:
        """Every slot's row of one layer: `full_size + page_size` or `swa_size + page_size` of them."""


class Calls(Protocol):
    """The single calls of a target: each method is the call of the events of that kind."""

    def alloc(self, count: int) -> list[int] | None:
        """Page size 1: `count` locs, or None if there are too few."""

    def alloc_extend(self, prefix_lens: list[int], seq_lens: list[int], last_locs: list[int]) -> list[int] | None:
        """The new locs of all requests, one request after the other; -1 is the last loc of an empty one."""

    def alloc_decode(self, seq_lens: list[int], last_locs: list[int]) -> list[int] | None:
        """One new loc a request; `seq_lens` count the new token."""

    def alloc_extend_swa_tail(self, prefix_len: int, seq_len: int, last_loc: int, tail: int) -> list[int] | None:
        """The new locs of one request, of which the last `tail` have an SWA slot."""

    def free(self, mapped: list[int], unmapped: list[int]) -> None:
        """Free locs in both pools. `unmapped` are those whose SWA slot the caller freed before or never had;
        they precede `mapped` in the request."""

    def free_swa(self, locs: list[int]) -> None:
        """Free the SWA slots of these locs."""

    def free_group_begin(self) -> None:
        """Open a free group."""

    def free_group_end(self) -> None:
        """Close the free group."""

    def set_mapping(self, locs: list[int]) -> list[int]:
        """Take fresh SWA slots from the SWA allocator, map `locs` to them in place, return them."""

    def register_mapping(self, locs: list[int]) -> list[int]:
        """Take fresh SWA slots, register a new mapping tensor that differs in `locs` only, then free the
        SWA slots they had; return the fresh ones. Nothing is taken or freed if `locs` is empty."""

    def backup(self) -> None:
        """Save the allocator's state; the target keeps it."""

    def restore(self) -> None:
        """Restore the saved state."""

    def clear(self) -> None:
        """Flush the cache."""

    def begin_forward(self, batch: Batch) -> None:
        """Start a forward over these locs."""

    def write_kv(self, layer: int, tags: list[int]) -> None:
        """Write one tag a token of the running batch, through the engine's own write path."""

    def read_kv(self, layer: int, locs: list[int]) -> Rows:
        """Read these locs' rows at a layer, through the engine's own read path."""

    def translate(self, locs: list[int], source: str) -> list[int]:
        """Translate locs in a tensor of kind `source`; see `Translate`. Two rows are returned one after the other."""

    def end_forward(self) -> None:
        """The forward is over."""

    def cpu_copy(self, copy: int, locs: list[int]) -> None:
        """Copy these locs' KV to the CPU; the target keeps it under the name `copy`."""

    def load_cpu_copy(self, copy: int, locs: list[int]) -> None:
        """Load a copy into these locs."""

    def move(self, targets: list[int], sources: list[int]) -> None:
        """Move KV from sources to targets, in both pools."""


CALLS = tuple(name for name in vars(Calls) if not name.startswith("_"))
"""Kinds of the events that a `Target` may execute."""


class Target(CacheTarget, Calls, Protocol):
    """The real code under test, driven with integers.

    A method raises the engine's exceptions; the driver reports them as crashes. All locs are full locs unless a name
    says SWA.
    """

    def translate_batch(self, start: int, stop: int) -> list[int]:
        """Translate elements of the running batch's own loc tensor."""

    def cache_hits(self) -> int:
        """The number of translations from a cache since `build`; 0 if unknown."""
