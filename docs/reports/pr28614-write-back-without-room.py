"""How often an eviction of SWA slots under write_back tries a leaf for which the host has no room."""

from contextlib import suppress
from types import MethodType
from unittest.mock import MagicMock

from sglang.srt.mem_cache.base_prefix_cache import EvictParams
from sglang.srt.mem_cache.unified_cache_components import ComponentType
from sglang.srt.mem_cache.unified_cache_components.swa_component import SWAComponent
from sglang.srt.mem_cache.unified_radix_cache import UnifiedLRUList, UnifiedRadixCache, UnifiedTreeNode

SWA, KINDS = ComponentType.SWA, (ComponentType.FULL, ComponentType.SWA)

leaf = UnifiedTreeNode(KINDS)  # the only leaf: 4 SWA slots that nobody locks, no copy on the host
leaf.component_data[SWA].value = range(4)
lru = UnifiedLRUList(SWA, KINDS)
lru.insert_mru(leaf)

backup = MagicMock(side_effect=[0] * 999)  # 0: there is no room; StopIteration after that
cache = MagicMock(lru_lists={SWA: lru}, evictable_device_leaves={leaf}, write_backup=backup)
cache.cache_controller.write_policy = "write_back"
cache._evict_device_leaf = MethodType(UnifiedRadixCache._evict_device_leaf, cache)
component = MagicMock(component_type=SWA, cache=cache)
with suppress(StopIteration):
    SWAComponent.drive_eviction(component, EvictParams(num_tokens=0, swa_num_tokens=4), dict.fromkeys(KINDS, 0))
print(f"backups of the same leaf until the script ends it: expected 1, got {backup.call_count}")
raise SystemExit(backup.call_count > 1)
