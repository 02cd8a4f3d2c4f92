"""Try an isolation level: confine this process, look whether the confinement holds, and say so.

``python isolation_probe.py <spec.json>``; the spec is a runner's, with ``outside`` (a file that must not
become writable) and ``secret`` (one that must not be readable). Writes one line of
JSON: ``why_not`` and ``note``.
"""

import json
import os
import sys


def main(path):
    """Try the level of a spec."""
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.path[0] = folder
    from _codeflash_runner.sandbox import confinement

    with open(path) as file:
        spec = json.load(file)
    try:
        if spec["isolation"]["level"] == confinement.SANDBOX:
            why_not, note = _in_a_template(confinement, spec)
        else:
            confinement.confine(spec)
            why_not, note = _why_not(spec), ""
    except confinement.ConfinementError as error:
        why_not, note = str(error), ""
    sys.stdout.write(json.dumps({"why_not": why_not, "note": note}))
    sys.stdout.flush()


def _in_a_template(confining, spec):
    """Try what a warm server does: the fork tells what it finds."""
    hearing, telling = os.pipe()
    confining.confine_template(spec)
    pid = os.fork()
    if pid == 0:
        try:
            try:
                confining.confine(spec, template=True)
                told = _why_not(spec), _note()
            except confining.ConfinementError as error:
                told = str(error), ""
            os.write(telling, json.dumps(told).encode())
        finally:
            os._exit(0)
    os.close(telling)
    with os.fdopen(hearing) as file:
        told = file.read()
    os.waitpid(pid, 0)
    return json.loads(told) if told else ("the confined process was killed", "")


def _why_not(spec):
    if spec["isolation"]["level"] == "sandbox" and os.getpid() != 2:
        return "there is no process namespace"
    with open(os.path.join(spec["root"], "inside"), "w") as file:
        file.write("this must be possible")
    try:
        with open(spec["outside"], "a") as file:
            file.write("the evaluator looks whether this can be read there")
    except OSError:
        pass
    try:
        with open(spec["secret"]):
            return "what is hidden can be read all the same"
    except OSError:
        return ""


def _note():
    others = [name for name in os.listdir("/proc") if name.isdigit() and int(name) > 2]
    return "/proc of this container stays and names processes outside" if others else ""


if __name__ == "__main__":
    main(sys.argv[1])
