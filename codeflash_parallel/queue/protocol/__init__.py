"""Requests and answers between daemon and clients as JSON lines over a Unix socket.

Offers: `messages`, `wire_format.request_line`, `wire_format.read_request`, `job_result.result_of`,
`socket_path.may_be_served`.
Imports: `queue` (errors, jobs, metrics), `candidates`, `result`.
"""
