"""Candidates and target functions of a run: sources, preparation of edits, names of targets.

Offers: `candidate_sources.entering`, `candidate_preparation.CandidatePreparer`,
`target_discovery.named_targets`, `target_names.must_have_named`.
Imports: run.state, run.store, check, workspace, candidates, config, result.
"""
