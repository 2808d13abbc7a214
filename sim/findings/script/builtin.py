"""The embedded implementation in a script: its own calls, its source in the script."""

from __future__ import annotations

from dataclasses import fields

from ....models.config import Config
from ...parts.allocator import events as ev
from .dialect import Lines

__all__ = ["ROOTS", "BuiltinDialect", "config_expression"]

ROOTS = ("staleloc.sim.targets.builtin.target",)


class BuiltinDialect:
    """See `Dialect`."""

    def setup(self, config: Config) -> Lines:
        return [
            "from embedded.models.config import Config",
            "from embedded.sim.targets.base import V_MARK, Batch",
            "from embedded.sim.targets.builtin.target import BuiltinTarget",
            "",
            "cache = BuiltinTarget()",
            f"cache.build({config_expression(config)})",
        ]

    def looks(self) -> dict[str, Lines]:
        return {
            "tags_of": [
                "def tags_of(rows):  # the tag of each row; both tags where key and value differ",
                "    if rows.values is None:",
                "        return rows.keys",
                "    pairs = zip(rows.keys, rows.values)",
                "    return [key if value == (key + V_MARK if key else 0) else (key, value) for key, value in pairs]",
            ],
            "table": ["table = cache.raw_mapping  # full loc -> SWA loc"],
            "rows": [
                "def rows(layer):  # what each slot of a layer holds",
                "    return tags_of(cache.raw_contents(layer))",
            ],
            "free_full": ["def free_full():", "    return cache.raw_free().full"],
            "room": ["def room():  # tokens that are available, as it says itself", "    return cache.raw_free().room"],
            "free_swa": ["def free_swa():", "    return cache.raw_free().swa"],
        }

    def alloc(self, count: int) -> Lines:
        return [f"new = cache.alloc({count})"]

    def alloc_extend(self, prefix: list[int], seq: list[int], last: str) -> Lines:
        return [f"new = cache.alloc_extend({prefix}, {seq}, {last})  # prefix_lens, seq_lens, last_locs"]

    def alloc_decode(self, seq: list[int], last: str) -> Lines:
        return [f"new = cache.alloc_decode({seq}, {last})  # seq_lens, last_locs"]

    def alloc_tail(self, prefix: int, seq: int, last: str, tail: int) -> Lines:
        return [
            f"new = cache.alloc_extend_swa_tail({prefix}, {seq}, {last}, {tail})  # prefix_len, seq_len, last_loc, tail"
        ]

    def free(self, unmapped: str, mapped: str) -> Lines:
        return [f"cache.free({mapped}, {unmapped})  # locs with and without an SWA slot"]

    def free_swa(self, locs: str) -> Lines:
        return [f"cache.free_swa({locs})"]

    def group(self, begin: bool) -> Lines:
        return [f"cache.free_group_{'begin' if begin else 'end'}()"]

    def set_mapping(self, locs: str, count: int) -> Lines:
        return [f"slots = cache.set_mapping({locs})"]

    def register_mapping(self, locs: str, count: int) -> Lines:
        return [f"slots = cache.register_mapping({locs})"]

    def backup(self) -> Lines:
        return ["cache.backup()"]

    def restore(self) -> Lines:
        return ["cache.restore()"]

    def clear(self) -> Lines:
        return ["cache.clear()"]

    def begin_forward(self, event: ev.BeginForward, count: int) -> Lines:
        return [f"cache.begin_forward(Batch(batch, {event.storage!r}, {event.offset}, {event.precomputed}))"]

    def write(self, layer: int, tags: list[int]) -> Lines:
        return [f"cache.write_kv({layer}, {tags})"]

    def read(self, layer: int, locs: str) -> Lines:
        return [f"got = tags_of(cache.read_kv({layer}, {locs}))"]

    def translate(self, event: ev.Translate, locs: str, count: int) -> Lines:
        if event.source == "batch":
            return [f"answer = cache.translate_batch({event.start}, {event.stop})"]
        return [f"answer = cache.translate({locs}, {event.source!r})"]

    def cpu_copy(self, copy: int, locs: str) -> Lines:
        return [f"cache.cpu_copy({copy}, {locs})"]

    def load_cpu_copy(self, copy: int, locs: str) -> Lines:
        return [f"cache.load_cpu_copy({copy}, {locs})"]

    def move(self, targets: str, sources: str) -> Lines:
        return [f"cache.move({targets}, {sources})"]

    def declared(self, kind: str, event: str) -> Lines:
        return [f"cache.declared({kind!r}, lambda allocator, pool: {event}.call(Cache(allocator, pool, full)))"]


def config_expression(config: Config) -> str:
    """The cache's shape as an expression, less what every cache has."""
    values = ((field.name, getattr(config, field.name), field.default) for field in fields(config))
    return f"Config({', '.join(f'{name}={value!r}' for name, value, default in values if value != default)})"
