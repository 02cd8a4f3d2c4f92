"""Adapters for programs that call codeflash-parallel.

Offers: `argparse_option.add_parallel_candidates_option`, `argparse_option.parallel`,
`nox.evaluate_session`, `scoring.score`, `scoring.evaluate`, `scoring.batch_evaluate`; `codeflash/` runs
codeflash itself.
Imports: config, result and run (nox imports nothing of the package); not cli, report.
"""
