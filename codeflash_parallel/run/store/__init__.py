"""Files of a run on disk: request and end, step cache, result document, edits, diffs.

Offers: `step_cache.StepCache`, `run_state.begun_run`, `run_state.resumed_run`, `run_state.read_state`,
`run_folder.save_run`, `run_folder.find_run`, `stored_result.stored_result`.
Imports: race, workspace, process, result.
"""
