"""The SQLite file of the queue: connection, creation and checks, schema, write turns, clock offset.

Offers: `file_setup.open_database`, `connection.Database`.
Imports: `queue` (errors, jobs), `result`.
"""
