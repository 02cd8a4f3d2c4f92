"""Run the tests on the unmodified snapshot once: probe, capture, stability, forced failure, provenance,
derived inputs.

Offers: `preflight.Preflight`, `baseline_validator` (errors with hints), `baseline_findings`,
`input_derivation`, `test_dependent_calls`.
Imports: baseline, check, warm, workspace, process, candidates, config, result.
"""
