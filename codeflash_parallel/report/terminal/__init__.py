"""Reports for people on a terminal: end report, progress board, speedup bars, profile tables.

Offers: `console.print_report`, `console.print_candidate`, `progress_board.open_board`.
Imports: `report`, `result`, `candidates`.
"""
