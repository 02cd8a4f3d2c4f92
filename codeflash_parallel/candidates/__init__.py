"""Static rules and facts about a candidate's files, without running them.

Offers: path_policy, fingerprint.fingerprint, target.Target, source_text.SourceText, syntax_check.
Imports: config, result.
"""
