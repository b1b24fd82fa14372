"""Tests of processes.py, on real processes: python3 -m unittest discover scripts"""

import os
import signal
import subprocess
import sys
import tempfile
import unittest

import processes

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); print('on', flush=True); time.sleep(60)"]


class Processes(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.group = processes.Group(self.scratch.name)
        self.addCleanup(self.group.stop_strays)

    def test_a_process_is_known_until_it_is_stopped(self):
        pid = self.group.start("one", SLEEP)
        self.assertEqual(self.group.pid("one"), pid)
        self.assertEqual(self.group.stop(["one"], 5), [])
        self.assertIsNone(self.group.pid("one"))
        self.assertEqual(self.group.names(), [])

    def test_what_does_not_stop_is_killed(self):
        self.group.start("one", STUBBORN)
        processes.wait_until(lambda: processes.tail(self.group.log("one")) == "on", 5)
        self.assertEqual(self.group.stop(["one"], 0.2), ["one"])
        self.assertIsNone(self.group.pid("one"))

    def test_what_is_frozen_is_stopped(self):
        self.group.start("one", SLEEP)
        self.group.tell("one", signal.SIGSTOP)
        self.assertEqual(self.group.stop(["one"], 5), [])

    def test_an_id_that_somebody_else_has_now_is_left_alone(self):
        other = subprocess.Popen(SLEEP)
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        os.makedirs(self.group.records)
        processes.write_json(self.group.record("one"), {"pid": other.pid, "started": "another boot:1"})
        self.assertIsNone(self.group.pid("one"))
        self.group.stop(["one"], 0)
        self.assertEqual(self.group.stop_strays(), [])
        self.assertIsNone(other.poll())

    def test_what_has_no_record_is_found(self):
        pid = self.group.start("one", SLEEP)
        os.remove(self.group.record("one"))
        self.assertEqual(self.group.stop_strays(), [pid])
        self.assertIsNone(processes.started(pid))


if __name__ == "__main__":
    unittest.main()
