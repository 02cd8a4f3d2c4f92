"""Compare test outcomes and replayed calls of a candidate with those of the baseline.

Offers: outcome_comparison.compare_tests, value_comparison.compare_calls, call_comparison.Tolerance,
difference_text, accept_function.AcceptFunction.
Imports: check.session (runner reports and outcomes), check.baseline_model, result.
"""
