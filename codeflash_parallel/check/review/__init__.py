"""List suspicious constructs that a candidate adds: hints for review, never a rejection.

Offers: review_flags.added_flags, suspicious_names.kind_of.
Imports: candidates, result.
"""
