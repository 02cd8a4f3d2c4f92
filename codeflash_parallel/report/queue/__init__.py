"""Reports of the queue: job table, JSON document, words.

Offers: `job_table.jobs_table`, `queue_document.queue_document`, `phrases.job_words`, `phrases.health_rows`.
Imports: `report`, `queue` (jobs, messages, metrics), `result`.
"""
