"""Commands for programs that make candidates: `score` for evolution loops, `codeflash` for codeflash itself.

Offers: each module has its command by name in `COMMANDS`.
Imports: `cli`, `hosts`, `config`, `result`.
"""
