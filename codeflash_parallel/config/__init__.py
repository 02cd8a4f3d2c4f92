"""Settings tables, their sources, the user's folders, and the environment variables that pass to the project.

Offers: `settings.Settings`, `settings_reader.read_settings`, `settings_table.setting` (tables of other
rooms), `user_context.cache_root`.
Imports: `result`.
"""
