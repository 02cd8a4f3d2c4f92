"""Mirror, slots and their life: where candidates are staged without touching the user's repository.

Offers: slot_pool.open_pool, slot_queue.SlotQueue, cache_layout.CacheHome, cleanup.recover, slot_owner.
Imports: sandbox, process, candidates, config, result.
"""
