"""State of one run: context, ledger of candidates, race mode, conversion of errors.

Offers: `run_context.RunContext`, `ledger.Ledger`, `race_mode.RaceMode`, `fault_conversion.disk_faults`.
Imports: run.store, warm, baseline, check, race and the rooms below.
"""
