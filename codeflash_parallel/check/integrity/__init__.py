"""Decide if the report of a test run can be trusted, and if the process itself failed.

Offers: canaries.draw and sift, run_secrets.arm, report_trust.unbelievable, process_faults.machinery_fault
and leak, assertion_helpers.
Imports: check.session, check.comparison, check.baseline_model, candidates, result.
"""
