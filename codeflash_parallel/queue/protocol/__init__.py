"""Requests and answers between daemon and clients as JSON lines over a Unix socket, and the result of a job
as its submitter gets it.

Offers: `messages`, `wire_format.request_line`, `wire_format.read_request`, `job_result.result_of`,
`socket_path.may_be_served`.
Imports: `queue` (errors, jobs, metrics), `candidates`, `result`.
"""
