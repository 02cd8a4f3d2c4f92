"""What the first baseline run notes besides outcomes: tests that start processes, modules from elsewhere.

`SpawnWatch(channel).install()` before pytest starts; `watch.set_test(nodeid)` around each test ("" between them);
`write_modules(channel, guard.places)` at the end of the session. Both only when ``spec["watch"]`` is true.
"""
