"""Freeze the user's tree as a commit of the private mirror and build candidates (edits) on it.

Offers: mirror.open_mirror, snapshot.Snapshot, snapshot.SnapshotRequest,
candidate_builder.materialise.
Imports: workspace.git, workspace (cache_layout, tree_guard), candidates, result.
"""
