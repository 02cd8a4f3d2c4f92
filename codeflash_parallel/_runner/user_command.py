"""A command of the user's, run where tests would be: in the project's folder, confined as they are."""

import os
import shutil
import subprocess
import sys


def run(spec, channel):
    """Run the spec's `command` and return its exit status; what it prints is the guest's own output."""
    # "python" is the project's interpreter, as it is for the tests.
    folders = [os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]
    environment = dict(os.environ, PATH=os.pathsep.join(folders))
    first, *others = spec["command"]
    program = shutil.which(first, path=environment["PATH"])
    if program is None:
        channel.write("command", status=None)
        return 127
    done = subprocess.run([program, *others], env=environment, stdin=subprocess.DEVNULL, check=False)
    channel.write("command", status=done.returncode)
    return 0
