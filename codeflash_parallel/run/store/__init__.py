"""Files of a run on disk: journal, result document, edits, diffs, race records.

Offers: `journal.Journal`, `journal_events`, `run_folder.save_run`, `run_folder.find_run`,
`stored_result.stored_result`, `race_record_store.RaceRecorder`.
Imports: baseline, check, race, process, candidates, config, result.
"""
