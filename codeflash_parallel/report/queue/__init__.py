"""Reports of the queue: job table, JSON document, words.

Offers: `job_table.jobs_table`; of `queue_document` `queue_document`, `job_words` and `health_rows`.
Imports: `report`, `queue` (jobs, messages, metrics), `result`.
"""
