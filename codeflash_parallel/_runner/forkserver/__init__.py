"""Template processes that stop at a fork point and fork one check for each order of the evaluator.

Offers: template_server.begin, code_swap.CodeSwap.
Imports: _runner.session, imports, sandbox, process, channels.
"""
