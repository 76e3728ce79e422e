"""What the tests of the command line program share: where it is, how it is run, what it leaves.

Guarantees: nothing is written but into the folder a test gives; each run has a limit in time, so a
hang is a failure of the test that met it. Use: from cli_support import needs_program, run, start
"""

import os
import pathlib
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
REGRESSION = ROOT / "repro_cases" / "regression"
PACKS = ROOT / "harness" / "real" / "testdata"
BUILD = pathlib.Path(os.environ.get("SHARDFUZZ_BUILD", "/nowhere"))
PROGRAM = BUILD / "tools" / "shardfuzz"
WORKER = BUILD / "harness" / "real" / "shardfuzz_worker"
NATIVE_WORKER = BUILD / "fuzz" / "shardfuzz_native_worker"
MAKE_MALFORMED = BUILD / "harness" / "case" / "make_malformed_cases"

DONE, DIFFERS, BAD_INPUT = 0, 1, 2
STOP_S = 8  # from a signal to the end: 2 s where nothing else runs
LIMIT_S = 240  # of one run: ten times what the slowest takes on two busy cores

# A build says itself which worker and Python it uses.
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name not in ("SHARDFUZZ_WORKER", "SHARDFUZZ_PYTHON", "SHARDFUZZ_HOME")
}


def _missing(*programs):
    if "SHARDFUZZ_BUILD" not in os.environ:
        return "SHARDFUZZ_BUILD names no build folder (tools/test sets it)"
    for program in programs:
        if not program.exists():
            return f"{program} is not built"
    return ""


def needs(*programs):
    reason = _missing(*programs)
    return pytest.mark.skipif(bool(reason), reason=reason)


needs_program = needs(PROGRAM)
needs_worker = needs(PROGRAM, WORKER)


class Ran:
    def __init__(self, arguments, code, out, err, seconds):
        self.arguments, self.code, self.out, self.err = arguments, code, out, err
        self.seconds = seconds

    def __repr__(self):
        line = " ".join(self.arguments)
        return f"shardfuzz {line}\nexit code {self.code}\nstdout:\n{self.out}\nstderr:\n{self.err}"

    def expect(self, code, *texts):
        """Exit code and texts in either stream; gives itself."""
        assert self.code == code, self
        for text in texts:
            assert text in self.out + self.err, f"{text!r} is missing from\n{self}"
        return self


def run(*arguments, cwd=None):
    arguments = [str(argument) for argument in arguments]
    begin = time.monotonic()
    done = subprocess.run(
        [str(PROGRAM), *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        stdin=subprocess.DEVNULL,
        env=ENVIRONMENT,
        cwd=cwd,
    )
    seconds = time.monotonic() - begin
    return Ran(arguments, done.returncode, done.stdout, done.stderr, seconds)


def wait_for(condition, what, seconds=LIMIT_S):
    """Polls; what it waits for is certain to come, so only a broken program reaches the limit."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {seconds} s in vain for {what}")


class Running:
    """A run in the background, whose output goes to files so that it never waits for a reader."""

    def __init__(self, folder, *arguments):
        self.arguments = [str(argument) for argument in arguments]
        self._out = folder / "stdout.txt"
        self._err = folder / "stderr.txt"
        self.workers_seen = set()
        with open(self._out, "w") as out, open(self._err, "w") as err:
            self.process = subprocess.Popen(
                [str(PROGRAM), *self.arguments],
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
                env=ENVIRONMENT,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def out(self):
        return self._out.read_text()

    def workers(self):
        found = children_of(self.process.pid)
        self.workers_seen.update(found)
        return found

    def wait_for_text(self, text):
        def is_there():
            self.workers()
            assert self.process.poll() is None or text in self.out(), self.result()
            return text in self.out()

        wait_for(is_there, repr(text))

    def wait_for_workers(self, count):
        """Until that many different ones were seen."""

        def are_there():
            self.workers()
            assert self.process.poll() is None, self.result()
            return len(self.workers_seen) >= count

        wait_for(are_there, f"{count} workers")

    def result(self):
        code = self.process.poll()
        return Ran(self.arguments, code, self.out(), self._err.read_text(), 0)

    def wait(self):
        end = time.monotonic() + LIMIT_S
        while self.process.poll() is None and time.monotonic() < end:
            self.workers()
            time.sleep(0.05)
        self.process.wait(timeout=1)
        return self.result()

    def stop(self, number):
        """Sends the signal; the result, with the seconds that it took to end."""
        self.workers()
        begin = time.monotonic()
        os.kill(self.process.pid, number)
        self.process.wait(timeout=LIMIT_S)
        result = self.result()
        result.seconds = time.monotonic() - begin
        return result

    def assert_no_worker_left(self):
        def are_gone():
            return not any(is_worker(pid) for pid in self.workers_seen)

        wait_for(are_gone, f"the end of the workers {self.workers_seen}", seconds=30)


def _stat(pid):
    """(state, parent) of a process, or None."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, parent = text.rsplit(")", 1)[1].split()[:2]
    return state, int(parent)


def children_of(pid):
    numbers = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    return {n for n in numbers if (stat := _stat(n)) and stat[1] == pid}


def is_zombie(pid):
    stat = _stat(pid)
    return stat is not None and stat[0] == "Z"


def is_worker(pid):
    """The process is there and is a worker: a number may have been given to somebody else."""
    try:
        return b"shardfuzz_worker" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def kill_worker(pid):
    os.kill(pid, signal.SIGKILL)


def assert_whole(folder):
    """Every file in the folder of found cases is a valid case; packs are left to the caller."""
    files = sorted(folder.iterdir())
    assert files, f"nothing in {folder}"
    for file in files:
        assert file.suffix == ".json", f"{file} is half written"
    return files
