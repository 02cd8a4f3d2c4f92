"""Put the new version of one function into the text of its module.

Offers: function_replacement.splice, scope_merge.ScopeMerge, import_merge, source_lines.SourceLines.
Imports: candidates.analysis, result.
"""
