"""The package's programs, for scripts that run them. SCRATCH names the build folder (.build), CONFIGURATION debug or
release."""

import os
import signal
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def build(*products):
    """Builds products, and returns the folder with them."""
    options = ["-c", os.environ.get("CONFIGURATION", "release"), "--scratch-path", os.environ.get("SCRATCH", ".build")]
    for product in products:
        subprocess.run(["swift", "build", *options, "--product", product], cwd=ROOT, stdout=sys.stderr, check=True)
    shown = subprocess.run(
        ["swift", "build", *options, "--show-bin-path"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return shown.stdout.strip()


def tool():
    """The path of `annals`: the one that ANNALS_TOOL names, or a build of this clone."""
    named = os.environ.get("ANNALS_TOOL")
    return os.path.abspath(named) if named else os.path.join(build("annals"), "annals")


def limit(seconds):
    """Ends the script with an error when so much time is over; what it has started ends as after any other error."""
    def over(*_):
        sys.exit(f"not done after {seconds:.0f} seconds")

    signal.signal(signal.SIGALRM, over)
    signal.alarm(int(seconds))
