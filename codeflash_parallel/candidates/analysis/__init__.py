"""Read Python source: syntax trees, functions, and what a change touches. Pure.

Offers: python_source.parse, syntax_tree, functions.locate, body_change, removed_checks.loosens,
code_constants.
Imports: result.
"""
