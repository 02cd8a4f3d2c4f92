"""One slot: create its tree, stage edits, detect changes by file status, restore, remove.

Offers: slot.Slot, slot_factory.SlotFactory, slot_files.Stager.
Imports: workspace.git, workspace.snapshot, workspace (cache_layout, tree_guard, cleanup),
result.
"""
