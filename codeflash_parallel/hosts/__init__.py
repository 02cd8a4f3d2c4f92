"""Adapters for programs that call codeflash-parallel.

Offers: `argparse_option.add_parallel_candidates_option`, `argparse_option.parallel`,
`nox.evaluate_session`.
Imports: config and result (nox imports nothing of the package); not cli, report.
"""
