"""One slot: create its tree, stage edits, detect changes by file status, restore, remove.

Offers: slot.Slot, slot_factory.SlotFactory, staging.Stager, tree_guard.TreeGuard, slot_files.
Imports: workspace.git, workspace.snapshot, workspace (cache_layout, file_status, cleanup),
result.
"""
