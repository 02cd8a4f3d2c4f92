"""Options of the project's configuration that would break a check, and what they are set to instead.

They are set on the parsed options, by name and only where they exist, so that neither an absent plugin nor
one that the project has disabled is an error.
"""

#: Names and values by destination; each group with its reason.
_VALUES = {
    # Stopping, asking and listing: every test runs, whatever the others did, and nobody is there to answer.
    "maxfail": 0,
    "usepdb": False,
    "trace": False,
    "collectonly": False,
    "setuponly": False,
    "setupplan": False,
    "setupshow": False,
    "lf": False,
    "failedfirst": False,
    "newfirst": False,
    "stepwise": False,
    "stepwise_skip": False,
    "stepwise_reset": False,
    "cacheshow": None,
    "testmon": False,
    # Looks.
    "color": "no",
    "showlocals": False,
    # Output files and services.
    "xmlpath": None,
    "htmlpath": None,
    "json_report": False,
    "json_report_file": None,
    "report_log": None,
    "resultlog": None,
    "md_report": False,
    "md_report_output": None,
    "csv_path": None,
    "allure_report_dir": None,
    "ctrf": None,
    "pastebin": None,
    "pytest_profiling": False,
    "profile": False,
    "profile_svg": False,
    "memray": False,
    "codspeed": False,
    # Coverage traces every line; it is not ours to collect.
    "cov_source": [],
    "cov_fail_under": None,
    "no_cov": True,
    # Order is the baseline's.
    "randomly_reorganize": False,
    "random_order": False,
    "random_order_bucket": "none",
    "reverse": False,
    # Processes of their own.
    "forked": False,
    "boxed": False,
    "looponfail": False,
    "distload": False,
    "maxprocesses": None,
    # pytest-benchmark repeats calls as long as its clock likes; once is enough to see that they work.
    "benchmark_disable": True,
    "benchmark_only": False,
    "benchmark_autosave": False,
    "benchmark_save": None,
}

#: How xdist may spread tests; other values are set to "load".
_SPREADS = frozenset({"load", "loadscope", "loadfile", "loadgroup", "worksteal"})


def neutralise(option, spec, in_worker):
    """Set the options in a namespace to what a check needs.

    Args:
        in_worker: this is a process of xdist's; its places and numbers are xdist's business.
    """
    for name, value in _VALUES.items():
        _set(option, name, value)
    follow(option, spec)
    if not in_worker:
        _set(option, "basetemp", spec["private"] + "/basetemp")
        _set(option, "benchmark_storage", "file://%s/benchmarks" % spec["private"])
        _workers(option, spec.get("workers", 0))


def follow(option, spec):
    """Set the options that forks of one template may have different."""
    _set(option, "tbstyle", "no" if spec.get("tracebacks") == "none" else "short")
    _set(option, "randomly_seed", spec.get("seed", 0))


def _workers(option, workers):
    _set(option, "numprocesses", workers)
    _set(option, "tx", [])
    if not workers:
        _set(option, "dist", "no")
    elif getattr(option, "dist", "load") not in _SPREADS:
        _set(option, "dist", "load")


def _set(option, name, value):
    if hasattr(option, name):
        setattr(option, name, value)


def without_writers(args):
    """Return arguments without those that open files while they are parsed."""
    return [arg for arg in args if not (arg == "--debug" or arg.startswith(("--debug=", "--benchmark-json")))]
