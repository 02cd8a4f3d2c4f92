"""Mirror, slots and their life: where candidates are staged without touching the user's repository.

Offers: slot_pool.open_pool, cache_layout.CacheHome, cleanup.recover, cleanup.SlotOwner,
tree_writer.write_edits.
Imports: sandbox, process, candidates, config, result.
"""
