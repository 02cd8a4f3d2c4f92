"""Vocabularies, result, events and errors that all rooms share, and the protocols between rooms.

Offers: errors, outcome_codes, result_model.RunResult, check_evidence, line_profile, events, codec,
result_document, isolation_policy, runtime_protocols.
Imports: nothing else of the package.
"""
