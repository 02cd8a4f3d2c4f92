"""The baseline run that candidates are compared with.

Offers: `baseline_store.load`, `baseline_store.save` (baselines on disk, one folder each).
Imports: warm, workspace, process, candidates, config, result.
"""
