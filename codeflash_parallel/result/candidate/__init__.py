"""The candidate as a value: as submitted, as edits, in JSON, and its stages in a run.

Offers: candidate_model.Candidate, content_json.content_of, lifecycle.advance.
Imports: result.errors, result.outcome_codes.
"""
