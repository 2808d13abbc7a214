"""The engine level's part of a release, imported when it is first needed and tried once before it is trusted."""

from __future__ import annotations

import traceback
from typing import Any

from ....models.config import FULL, SWA, Config
from ..base import MISFITS, TargetError
from ..engine import EngineTarget
from .disagg_release import ANNOUNCED, DecodeRelease
from .engine_release import EngineRelease
from .hicache import HostTiers
from .leaves import Leaf
from .overlap_release import OverlapRelease
from .scheduler_release import SchedulerRelease
from .spec_release import SpecRelease
from .spec_stand_ins import SPEC_ANNOUNCED

__all__ = ["EngineParts"]


class EngineParts:
    """The parts of an engine.

    Args:
        name: the release, for messages.
        host: whether it can have a host tier.
        decodes: whether it can be a decode node.
        speculates: whether it can decode speculatively.
        trusted: do not try it; it is broken on purpose.
    """

    def __init__(self, name: str, host: bool, decodes: bool, speculates: bool, trusted: bool) -> None:
        self._name = name
        self._host, self._decodes, self._speculates = host, decodes, speculates
        self._tried: set[tuple[int, str, bool]] = set()
        self._trusted = trusted
        self._release: EngineRelease | None = None
        self._tiers: HostTiers | None = None
        self._decode: DecodeRelease | None = None
        self._spec: SpecRelease | None = None
        self._schedule: SchedulerRelease | None = None
        self._overlap: OverlapRelease | None = None

    @property
    def schedule(self) -> SchedulerRelease:
        """The release's code for scheduling."""
        if self._schedule is None:
            self._schedule = SchedulerRelease(self.release)
        return self._schedule

    @property
    def overlap(self) -> OverlapRelease:
        """The release's code for two batches in flight."""
        if self._overlap is None:
            self._overlap = OverlapRelease(self.schedule)
        return self._overlap

    @property
    def spec(self) -> SpecRelease:
        """The release's code for speculative decode."""
        if self._spec is None:
            self._spec = SpecRelease(self.release)
        return self._spec

    @property
    def decode(self) -> DecodeRelease:
        """The release's code for decode nodes."""
        if self._decode is None:
            self._decode = DecodeRelease(self.release)
        return self._decode

    @property
    def release(self) -> EngineRelease:
        """The release's code for requests."""
        if self._release is None:
            self._release = EngineRelease()
        return self._release

    def tiers(self, config: Config) -> HostTiers | None:
        """The builder of a tree's host tier, or None without one."""
        if not config.host_full_size:
            return None
        if not self._host:
            raise TargetError(f"{self._name} has no host tier for this tree")
        if self._tiers is None:
            self._tiers = HostTiers()
        return self._tiers

    def replacements(self) -> tuple[Leaf, ...]:
        """What of the release was replaced for this level so far, or is where a node is built or a draft begins."""
        tiers = self._tiers.replacements if self._tiers is not None else ()
        return tiers + (ANNOUNCED if self._decodes else ()) + (SPEC_ANNOUNCED if self._speculates else ())

    def load(self) -> None:
        """Import everything now."""
        self._release = EngineRelease()
        if self._host:
            self._tiers = HostTiers()
        if self._decodes:
            self._decode = DecodeRelease(self._release)
        if self._speculates:
            self._spec = SpecRelease(self._release)
        self._schedule = SchedulerRelease(self._release)
        self._overlap = OverlapRelease(self._schedule)

    def wants_trial(self, config: Config) -> bool:
        """Whether an engine like this has not been tried yet; true once."""
        kind = (config.page_size, config.policy, bool(config.host_full_size))
        if self._trusted or kind in self._tried:
            return False
        self._tried.add(kind)
        return True

    def trial(self, target: EngineTarget, config: Config) -> None:
        """Run requests through a new engine with the page size, policy and host tier of `config`.

        Where the release itself fails, by an assertion of its own say, it is left to the tapes to show it.

        Raises:
            TargetError: the release does not behave as the adapter expects.
        """
        try:
            found, expected = _life(target, config)
        except TargetError:
            raise
        except Exception as error:
            if _own_failure(error):
                return
            raise TargetError(
                f"{self._name}: a request cannot be run ({type(error).__name__}: {error}); the adapter needs an update"
            ) from error
        if found != expected:
            raise TargetError(
                f"{self._name}: of a first request, {_differing(found, expected)}; "
                "either this code does not do that any more, or the adapter needs an update"
            )


def _differing(found: dict[str, Any], expected: dict[str, Any]) -> str:
    """The results that differ, and how."""
    return ", ".join(
        f"{key} is {found[key]} and not {expected[key]}" for key in expected if found[key] != expected[key]
    )


def _own_failure(error: Exception) -> bool:
    """Whether the release's code failed by itself, not because of the adapter's arguments."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    theirs = str(frame.f_globals.get("__name__", "")).startswith("sglang.")
    return theirs and not isinstance(error, MISFITS)


def _life(target: EngineTarget, config: Config) -> tuple[dict[str, Any], dict[str, Any]]:
    """What came of a request in two chunks and a decode step and of another with the same prompt, and what should."""
    size = config.page_size
    prompt = list(range(1, 2 * size + 2))
    tokens = [*prompt, 0]
    kept = len(tokens) // size * size
    host = 5 * size if config.host_full_size else 0
    target.build(
        Config(
            level="engine", policy=config.policy, page_size=size, full_size=4 * size, swa_size=4 * size, window=2,
            layers=(FULL, SWA), host_full_size=host, host_swa_size=host,
        )
    )  # fmt: skip
    empty = target.raw_free()
    first = target.admit(0, prompt)
    for count in (size, size + 1):
        assert target.prefill(0, count) is not None
        stop = len(target.raw_requests()[0].row)
        _forward(target, stop - count, stop)
        target.checkpoint(0)
    assert target.decode([0], [0]) is not None
    _forward(target, len(prompt), len(tokens))
    target.evict_window(0)
    row = target.raw_requests()[0].row
    target.finish(0)
    second = target.admit(1, prompt)
    again = target.raw_requests()[1].row
    target.abort(1)
    target.transfer_done(target.pending())
    nodes = target.raw_tree()
    held = [loc for node in nodes for loc in node.full or ()]
    rows = target.raw_contents(0)
    target.evict(4 * size, 4 * size)
    left = target.raw_free()
    target.flush()
    found = {
        "admissions": [(admission.cached, admission.loaded) for admission in (first, second) if admission],
        "second row": again,
        "tree": [token for node in nodes for token in node.tokens],
        "locks": {node.full_locks for node in nodes},
        "rows": [rows.keys[loc] for loc in held],
        "backed up": {node.host_full is not None for node in nodes},
        "free": (sorted(left.full), sorted(left.swa)),
        "flushed": target.raw_free(),
    }
    expected = {
        "admissions": [(0, 0), (2 * size, 0)],
        "second row": row[: 2 * size],
        "tree": tokens[:kept],
        "locks": {0},
        "rows": list(range(1, kept + 1)),
        "backed up": {host > 0},
        "free": (sorted(empty.full), sorted(empty.swa)),
        "flushed": empty,
    }
    return found, expected


def _forward(target: EngineTarget, start: int, stop: int) -> None:
    for layer in (0, 1):
        target.write([(0, start, stop)], layer, list(range(start + 1, stop + 1)))
