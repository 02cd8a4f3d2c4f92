"""Freeze the user's tree as a commit of the private mirror and build candidates (edits) on it.

Offers: mirror.open_mirror, snapshot.Snapshot, snapshot_request,
candidate_builder.materialise.
Imports: workspace.git, workspace (cache_layout, file_status), candidates, result.
"""
