"""Forms of a result: console, Markdown, JUnit XML, JSON lines; `queue/` has jobs, `page/` has HTML pages.

Offers: `columns.COLUMNS`, `console.print_report`, `progress_board.open_board`, `json_lines.JsonLines`,
`junit.junit_xml`, `markdown.markdown`, `timing_table.run_timings`.
Imports: `result`; `queue/` and `page/` alone import `queue`, `page/` alone `run`.
"""
