"""Candidates as they are handed in, and static rules and facts about their files, without running them.

Offers: submissions.read_submissions, path_policy, function_replacement.splice, functions (`Target`,
`locate`), code_changes, python_source, source_text.
Imports: config, result.
"""
