"""Run the tests on the unmodified snapshot: probe, capture, stability, forced failure, provenance.

Offers: `preflight.Preflight`, `baseline_validator` (errors with hints), `baseline_findings`,
`input_derivation`, `test_dependent_calls`.
Imports: baseline, check, warm, workspace, process, candidates, config, result.
"""
