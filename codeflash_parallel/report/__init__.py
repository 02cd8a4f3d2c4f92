"""Forms of a result: console, progress, Markdown, JUnit XML and JSON lines; `queue/` has those of jobs.

Offers: `columns.COLUMNS`, `console.print_report`, `progress_board.open_board`, `json_lines.JsonLines`,
`junit.junit_xml`, `markdown.markdown`, `timing_table.run_timings`.
Imports: `result`; `queue/` alone imports `queue`.
"""
