"""Forms of a result: console, progress, Markdown, JUnit XML and JSON lines; `queue/` has those of jobs.

Offers: `columns.COLUMNS`, `json_lines.JsonLines`, `junit.junit_xml`,
`markdown.markdown`, `timing_table.run_timings`, `safe_text.printable`.
Imports: `result`, `candidates`.
"""
