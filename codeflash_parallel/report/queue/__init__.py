"""Reports of the queue: job table, JSON document, health figures, phrases.

Offers: `job_table.jobs_table`, `json_document.queue_document`, `health.health_rows`, `phrases.job_words`.
Imports: `report`, `queue` (jobs, messages, metrics), `result`.
"""
