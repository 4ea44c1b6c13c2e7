"""What a person at a terminal sees: progress on standard error after two seconds, and nothing of it elsewhere."""

import os
import pty
import subprocess

from calling import COMMAND, call

LONG = ["bench", "--shape", "1,16,4096", "--out-channels", "16", "--kernel", "3", "--min-time", "3"]


def test_progress_on_a_terminal():
    terminal, other_end = pty.openpty()
    process = subprocess.Popen([COMMAND, *LONG], stdout=subprocess.PIPE, stderr=other_end)
    os.close(other_end)
    out = process.stdout.read()
    seen = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(terminal)
    assert process.wait() == 0
    assert b"timing: 2 s" in seen and seen.endswith(b"\r\x1b[K"), "shown, and wiped away at the end"
    assert b"timing" not in out


def test_no_progress_elsewhere():
    assert call(*LONG).err == ""
