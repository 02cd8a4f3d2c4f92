"""Forms of a run's result for programs and files, and the text helpers that all reports share.

Offers: `columns.COLUMNS`, `json_lines.JsonLines`, `junit.junit_xml`,
`markdown.markdown`, `timing_table.run_timings`, `safe_text.printable`.
Imports: `result`, `candidates`.
"""
