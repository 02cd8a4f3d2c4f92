"""Pages for a browser: one self-contained file each, without scripts and without a request to anywhere.

Offers: `run_page.run_page`, `queue_page.queue_page`, `plots.speedup_plot` (also a file of its own).
Imports: `report`, `run` (traces of stored runs), `queue` (jobs), `result`.
"""
