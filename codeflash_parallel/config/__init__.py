"""Settings tables, their sources, the user's folders, and the environment of the project's processes.

Offers: `settings.Settings`, `settings_reader.read_settings`, `settings_table.setting` (tables of other
rooms), `settings_reader.cache_root`, `environment.project_environment`.
Imports: `result`.
"""
