"""For tests: a shardfuzz_worker that runs cases, in frames on its descriptors 3 and 4.

The paths of the programs come from CTest in the environment. `Worker.run` gives the events of a
case, or raises `Died` with the signal and the worker's last words.
"""

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys

_HIGH = 100  # descriptors that no pipe of this process has


class Died(Exception):
    def __init__(self, number, last_words):
        super().__init__(f"{signal.Signals(number).name}: {last_words}")
        self.number, self.last_words = number, last_words


def facts():
    return json.loads(subprocess.check_output([os.environ["SHARDFUZZ_FACTS"]]))


class Worker:
    def __init__(self, *pack_files, coverage=None):
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        command = [
            os.environ["SHARDFUZZ_WORKER"],
            "--python",
            sys.executable,
            "--home",
            os.environ["SHARDFUZZ_HOME"],
        ]
        for file in pack_files:
            command += ["--pack", file]
        if coverage is not None:
            command += ["--coverage", str(coverage)]

        def descriptors():
            os.dup2(requests, _HIGH)
            os.dup2(answers, _HIGH + 1)
            os.dup2(_HIGH, 3)
            os.dup2(_HIGH + 1, 4)
            os.closerange(5, 256)

        self.process = subprocess.Popen(
            command,
            preexec_fn=descriptors,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(requests)
        os.close(answers)
        self.hello = json.loads(self.receive()[1])

    def send(self, case, unaided=False):
        payload = (b"unaided\n" if unaided else b"") + json.dumps(case).encode()
        with contextlib.suppress(BrokenPipeError):
            os.write(self._requests, struct.pack("<I", len(payload)) + b"R" + payload)

    def receive(self):
        """(kind, text) of the next frame; kind is "" where the worker is gone."""
        header = self._read(5)
        if len(header) < 5:
            return "", ""
        return chr(header[4]), self._read(struct.unpack("<I", header[:4])[0]).decode()

    def run(self, case, unaided=False):
        self.send(case, unaided)
        kind, text = self.receive()
        if kind == "A":
            return sorted(json.loads(text)["events"], key=lambda event: event["i"])
        self.process.wait()
        raise Died(-self.process.returncode, text)

    def close(self):
        os.close(self._requests)
        os.close(self._answers)
        self.process.wait()

    def _read(self, count):
        data = b""
        while len(data) < count:
            part = os.read(self._answers, count - len(data))
            if not part:
                break
            data += part
        return data


def case(groups, world_size, **more):
    """A case of the given groups (each a dict, or a list of parameters) below an empty root."""
    made = [{"name": "root", "params": []}]
    for i, group in enumerate(groups):
        group = dict(group) if isinstance(group, dict) else {"params": group}
        group["params"] = [{"name": f"w{p}", **param} for p, param in enumerate(group["params"])]
        made.append({"name": f"g{i}", **group})
    return {
        "schema": "shardfuzz.case/1",
        "name": "test",
        "mesh": {"shape": [world_size]},
        "groups": made,
        "steps": 1,
        **more,
    }


def raised(events):
    """{rank: (type, message, where)} of what the code under test raised."""
    return {
        event["rank"]: tuple(event["data"][key] for key in ("type", "message", "where"))
        for event in events
        if event["kind"] == "raised" and not event["data"]["by_harness"]
    }


def of_kind(events, kind):
    return [event for event in events if event["kind"] == kind]
