"""Template processes that stop at a fork point and fork one check (or arm) for each order of the evaluator.

Offers: template_server.begin (fork points of checks), arm_forkserver.run (bare interpreter that forks
arms), code_swap.CodeSwap, fork_safety.ForkSafety.
Imports: _runner.session, imports, sandbox, process, channel.
"""
