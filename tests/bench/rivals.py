# SPDX-License-Identifier: Apache-2.0
"""Processes that compile networks for one GPU side by side and time them one at
a time: what gpu_peers.py and train_peers.py have in common.

A line of a table is a dictionary with "network", "batch" and "rivals", which
maps a mode to what was found: {"ms": ...}, {"fault": text} or {"word": why there
is nothing}.  A rival process reads "MODE BATCH" and answers as torch_rival.py
says.  Whoever measures holds the lock of the file TURN; while a rival measures,
the others are stopped as well.
"""
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time


def with_batches(text):
    """[(word, batches)], none for all: "graph,auto:128+1"."""
    found = []
    for word in filter(None, text.split(",")):
        mode, _, batches = word.partition(":")
        found.append((mode, [int(b) for b in batches.split("+") if b]))
    return found


class Rival:
    """A process that compiles and times the modes of one line of the table."""

    def __init__(self, row, command, limit, errors, environment):
        self.row, self.limit, self.errors = row, limit, errors
        # Its errors go to a file: what compiling says fills pages.
        with open(errors, "wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, *command], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=file, start_new_session=True,
                env={**os.environ, **environment},
                preexec_fn=lambda: os.nice(5))
        self.rest, self.ended = b"", False

    def ask(self, mode):
        self.mode, self.found, self.wants_alone = mode, None, False
        self.begin = time.perf_counter()
        self.end = self.begin + self.limit
        self.say(f"{mode} {self.row['batch']}")

    def say(self, line):
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.ended = True

    def signal(self, number):
        """To it and to the processes that compile for it."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def close(self):
        self.signal(signal.SIGKILL)
        self.process.wait()

    def read(self):
        """Takes in what it has written."""
        piece = os.read(self.process.stdout.fileno(), 65536)
        self.ended = not piece
        *lines, self.rest = (self.rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"RESULT "):
                self.found = json.loads(line[7:])
            elif line in (b"ALONE", b"SHARED"):
                self.wants_alone = line == b"ALONE"

    def result(self):
        """What it found, why there is nothing, or None as yet."""
        now = time.perf_counter()
        if self.found is None and (self.ended or
                                   self.process.poll() is not None):
            self.ended = True
            with open(self.errors, encoding="utf-8", errors="replace") as file:
                print(file.read()[-2000:], flush=True)
            self.found = {"fault": "the process ended"}
        if self.found is None and now > self.end:
            self.found = {"word": f"over {now - self.begin:.0f} s"}
        return self.found


def listen(rivals, seconds):
    streams = [r.process.stdout for r in rivals if not r.ended]
    heard = select.select(streams, [], [], seconds)[0] if streams else []
    for rival in rivals:
        if rival.process.stdout in heard:
            rival.read()
    if not streams:
        time.sleep(seconds)


def let_alone(rival, others):
    """Lets one measure while the others stand still."""
    begin = time.perf_counter()
    for other in others:
        other.signal(signal.SIGSTOP)
    time.sleep(0.2)  # what they have queued runs out
    rival.say("go")
    while rival.wants_alone and rival.result() is None:
        listen([rival], 0.2)
    for other in others:
        other.signal(signal.SIGCONT)
        other.end += time.perf_counter() - begin


class Ours:
    """Measurements of our own programs, one at a time, each within `limit`
    seconds.  They hold the lock of the turn, and the rivals are stopped meanwhile
    but for the processes that compile for them, which do not use the GPU."""

    def __init__(self, turn, report, limit=60):
        self.waiting, self.report, self.limit = [], report, limit
        self.file = open(turn, "a", encoding="utf-8")

    def add(self, task, command):
        self.waiting.append((task, command))

    def turn(self):
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def step(self, running):
        """Measures one, where the turn is free."""
        if not self.waiting or not self.turn():
            return
        begin = time.perf_counter()
        for rival in running:
            rival.process.send_signal(signal.SIGSTOP)
        time.sleep(0.1)  # what they have queued runs out
        task, command = self.waiting.pop(0)
        try:
            done = subprocess.run(command, capture_output=True, text=True,
                                  timeout=self.limit)
            self.report(task, done.returncode, done.stdout, done.stderr)
        except subprocess.TimeoutExpired:
            self.report(task, 1, "", f"over {self.limit} s")
        for rival in running:
            rival.process.send_signal(signal.SIGCONT)
            rival.end += time.perf_counter() - begin
        fcntl.flock(self.file, fcntl.LOCK_UN)


class Rivals:
    """All of them: a process a line, which stays for the line's next mode.

    make(row) gives a Rival, changed() is called when a line has a new figure,
    ours, where it is given, is measured meanwhile, and more() may add lines and
    says whether others are to come."""

    def __init__(self, make, at_once, deadline, changed, ours=None,
                 more=lambda: False):
        self.make, self.at_once, self.deadline = make, at_once, deadline
        self.changed, self.ours, self.more = changed, ours, more
        self.waiting, self.idle, self.running = [], {}, []
        self.begun = time.perf_counter()

    def add(self, row, mode):
        self.waiting.append((row, mode))

    def over(self):
        return time.perf_counter() > self.deadline

    def next(self):
        """The first that waits and whose process is not at work."""
        busy = [id(r.row) for r in self.running]
        for i, (row, _) in enumerate(self.waiting):
            if id(row) not in busy:
                return self.waiting.pop(i)
        return None

    def begin(self):
        while len(self.running) < self.at_once:
            task = self.next()
            if task is None:
                return
            row, mode = task
            rival = self.idle.pop(id(row), None) or self.make(row)
            rival.ask(mode)
            self.running.append(rival)

    def end(self, rival, found):
        self.running.remove(rival)
        again = any(row is rival.row for row, _ in self.waiting)
        if again and ("ms" in found or "fault" in found and not rival.ended):
            self.idle[id(rival.row)] = rival
        else:
            rival.close()
        rival.row["rivals"][rival.mode] = found
        print(f"{time.perf_counter() - self.begun:.0f} s: "
              f"{rival.row['network']} batch {rival.row['batch']} PyTorch "
              f"{rival.mode}: {found}", flush=True)
        self.changed()

    def step(self):
        listen(self.running, 0.1)
        for rival in list(self.running):
            if rival.result() is None and rival.wants_alone:
                let_alone(rival, [r for r in self.running if r is not rival])
                rival.wants_alone = False
            if rival.result() is not None:
                self.end(rival, rival.result())
        if self.ours:
            self.ours.step(self.running)

    def busy(self):
        return self.more() or self.waiting or self.running or \
            self.ours and self.ours.waiting

    def all(self):
        try:
            while self.busy() and not self.over():
                self.begin()
                self.step()
        finally:
            for rival in [*self.running, *self.idle.values()]:
                rival.close()
        for row, mode in [*self.waiting,
                          *((r.row, r.mode) for r in self.running)]:
            row["rivals"][mode] = {"word": "not reached"}
        self.changed()
