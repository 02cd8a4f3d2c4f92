"""Decide if the report of a test run can be trusted, and if the process itself failed.

Offers: canaries.draw, arm and sift, process_faults.machinery_fault, unbelievable and leak.
Imports: check.session, check.comparison, check.baseline_model, candidates, result.
"""
