"""The baseline run that candidates are compared with.

Offers: `preflight.Preflight` (its run, its calls, fresh inputs, flaky tests; errors with
hints), `baseline_store.load` and `.save` (baselines on disk, one folder each).
Imports: warm, check, workspace, process, candidates, config, result.
"""
