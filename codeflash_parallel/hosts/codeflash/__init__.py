"""codeflash with its evaluation of candidates replaced by ours, in a process of its own.

Offers: `python -m codeflash_parallel.hosts.codeflash`, which the command `codeflash` starts;
`known_interface` tells whether the installed codeflash is one that is known, `candidate_race` is the
replacement, `race_log` tells the command what the races gave. No code of codeflash is in here: it has another
licence.
Imports: config, result, run and workspace; codeflash itself only inside functions.
"""
