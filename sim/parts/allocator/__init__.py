"""The allocator level: single calls of a cache's API."""
