"""Read Python source: lines, syntax trees, functions, and what a change touches. Pure.

Offers: python_source.PythonSource, syntax_tree, functions.locate, body_change, removed_checks.loosens,
code_constants.
Imports: result.
"""
