"""Vocabularies, candidates, results, events and errors that all rooms share, and the protocols between rooms.

Offers: errors, outcome_codes, candidate_model, result_model, events, codec, result_document,
safe_text, isolation_policy, runtime_protocols.
Imports: nothing else of the package.
"""
