"""How often an eviction of SWA slots under write_back tries the same leaf, with room on the host and without."""

from types import SimpleNamespace

from sglang.srt.mem_cache.base_prefix_cache import EvictParams
from sglang.srt.mem_cache.unified_cache_components import ComponentType
from sglang.srt.mem_cache.unified_cache_components.swa_component import SWAComponent
from sglang.srt.mem_cache.unified_radix_cache import UnifiedLRUList, UnifiedRadixCache, UnifiedTreeNode

KINDS = (ComponentType.FULL, ComponentType.SWA)


class Ended(Exception):
    pass


def tries(host_has_room):
    backups = []
    lru = UnifiedLRUList(ComponentType.SWA, KINDS)
    leaf = UnifiedTreeNode(KINDS)  # the only leaf: 4 SWA slots that nobody locks, no copy on the host
    leaf.component_data[ComponentType.SWA].value = range(4)
    lru.insert_mru(leaf)

    def write_backup(node, write_back):
        backups.append(node)
        if len(backups) == 1000:
            raise Ended
        return 4 if host_has_room else 0

    def demote(node, tracker):
        lru.remove_node(node)
        tracker[ComponentType.SWA] += 4

    cache = SimpleNamespace(
        lru_lists={ComponentType.SWA: lru},
        evictable_device_leaves={leaf},
        cache_controller=SimpleNamespace(write_policy="write_back"),
        write_backup=write_backup,
        writing_check=lambda write_back: None,
        _is_device_leaf=lambda node: True,
        _evict_to_host=demote,
    )
    cache._evict_device_leaf = lambda node, tracker: UnifiedRadixCache._evict_device_leaf(cache, node, tracker)
    component = SimpleNamespace(component_type=ComponentType.SWA, cache=cache)
    tracker = dict.fromkeys(KINDS, 0)
    try:
        SWAComponent.drive_eviction(component, EvictParams(num_tokens=0, swa_num_tokens=4), tracker)
    except Ended:
        return "still trying the same leaf after 1000 backups"
    return f"{tracker[ComponentType.SWA]} SWA tokens evicted after {len(backups)} backup"


print("room on the host:   ", tries(True))
print("no room on the host:", tries(False))
