"""Replace the code objects of target functions in a fork of a template that has collected its tests (fork
point `collected`).

Offers: code_swapper.SwapProbe, code_references.take, dependency_probe, statement_compiler.TargetStatements,
code_comparison.
Imports: _runner.imports, process.
"""
