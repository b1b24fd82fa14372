#!/usr/bin/env python3
"""Runs the commands of documents against the binary and compares what they print with what is shown.

  python3 conformance/docs BINARY [FILE.md...]     without files: all that are in PAGES

A block of commands is a fenced block without a language; a fenced block right after one, with nothing but
blank lines between, is what it prints. A comment before a block says more:

  <!-- run: server -->        it starts the server: goes on once that listens
  <!-- run: background -->    it starts something else that goes on
  <!-- run: replaced -->      it sets what the block before has shown (a secret): taken from there
  <!-- not run: REASON -->    it needs what is not here: another host, systemd, a browser
  <!-- shown: part -->        before an output: its lines are some of those that are printed

All blocks of a page run one after another in one shell, in an empty directory, with the port 8080 replaced
by a free one. In outputs `...` stands for any text, and ids, times, versions and secrets may differ.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = ["README.md", "docs/tutorial/first-flag.md", "docs/tutorial/first-sign-up.md",
         "docs/tutorial/first-payment.md", "docs/how-to/receive-webhooks.md",
         "docs/how-to/resolve-an-unknown-payment.md", "docs/how-to/follow-a-feature-flag.md"]
BLOCK_WITHIN_S = 60
END = "--end-of-block--"

ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
MASKS = [(ID, "ID"), (r"[0-9a-f]{8}-\.\.\.", "ID"), (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
         (r"\b1\d{12}\b", "VERSION"), (r"[ \t]+", " ")]


class Block:
    def __init__(self, page, line, text, mark):
        self.page, self.line, self.text, self.mark = page, line, text, mark
        self.output = None
        self.is_part = False


def blocks(page):
    """The blocks of commands in a page, with the outputs shown after them."""
    found, mark, lines = [], None, open(os.path.join(ROOT, page)).read().split("\n")
    at = 0
    while at < len(lines):
        comment = re.match(r"\s*<!-- ((?:not )?run|shown): (.*?) -->$", lines[at])
        fence = re.match(r"(\s*)```(\w*)$", lines[at])
        if comment:
            mark = (comment[1], comment[2])
        elif fence:
            indent, start = len(fence[1]), at + 1
            at = next(end for end in range(start, len(lines)) if lines[end].strip() == "```")
            text = "\n".join(line[indent:] for line in lines[start:at])
            is_output = found and found[-1].output is None and found[-1].ends == start - 1
            if not fence[2] and is_output:
                found[-1].output, found[-1].is_part = text, bool(mark and mark[0] == "shown")
            elif not fence[2]:
                found.append(Block(page, start, text, mark))
            mark = None
            after = at + 1
            while after < len(lines) and (not lines[after].strip() or "<!-- shown:" in lines[after]):
                after += 1
            if found:
                found[-1].ends = after
        elif lines[at].strip():
            mark = None
        at += 1
    return found


def masked(text):
    for pattern, name in MASKS:
        text = re.sub(pattern, name, text)
    return [line.strip() for line in text.strip().split("\n")]


def matches(shown, printed, is_part):
    """Whether what was printed is what is shown."""
    shown, printed = masked(shown), masked(printed)
    fits = lambda line, found: re.fullmatch(".*?".join(map(re.escape, line.split("..."))), found)
    if is_part:
        return all(any(fits(line, found) for found in printed) for line in shown)
    return len(shown) == len(printed) and all(map(fits, shown, printed))


class Shell:
    """One shell for all blocks of a page."""

    def __init__(self, binary, directory):
        self.directory = directory
        os.makedirs(os.path.join(directory, "bin"))
        os.symlink(binary, os.path.join(directory, "bin", "faregate"))
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FAREGATE_")}
        path = f"{os.path.join(directory, 'bin')}:{os.environ['PATH']}"
        self.process = subprocess.Popen(
            ["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            cwd=directory, env=kept | {"PATH": path, "HOME": directory}, start_new_session=True)

    def run(self, text):
        """What it prints; its exit code is that of the last command."""
        self.process.stdin.write(f"{text}\necho; echo {END} $?\n")
        self.process.stdin.flush()
        printed = []
        for line in self.process.stdout:
            if line.startswith(END):
                return "".join(printed)[:-1], int(line.split()[1])
            printed.append(line)
        raise RuntimeError("the shell has ended")

    def end(self):
        os.killpg(self.process.pid, 15)
        self.process.wait()


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return str(it.getsockname()[1])


def play(page, binary):
    """How many blocks did what they show, did not, and were not run."""
    passed, failed, not_run = 0, 0, 0
    directory, port, last = tempfile.mkdtemp(prefix="faregate-docs-"), free_port(), ""
    shell = Shell(binary, directory)
    shell.run(f"export FAREGATE_LISTEN=127.0.0.1:{port} FAREGATE_URL=http://127.0.0.1:{port}")
    try:
        for block in blocks(page):
            kind, what = block.mark or ("run", "")
            where = f"{page}:{block.line}"
            if kind == "not run":
                not_run += 1
                continue
            text = block.text.replace("127.0.0.1:8080", f"127.0.0.1:{port}")
            if what == "server":
                text = text.replace("cargo run --release -- demo", f"faregate demo --listen 127.0.0.1:{port}")
                listens = "grep -qE '^(listening|Still serving)' server.log"
                text = (f"({text.rstrip('& ')}) >server.log 2>&1 &\n"
                        f"for _ in $(seq 200); do {listens} && break; sleep 0.05; done; {listens}")
            elif what == "background":
                text += "\nsleep 1"
            elif what == "replaced":
                secret = re.search(r"apiSecret\s+(\S+)", last)
                text = re.sub(r"(FAREGATE_API_SECRET=)\S+", rf"\g<1>{secret[1] if secret else ''}", text)
            printed, code = shell.run(text)
            last = printed
            if block.output is None:
                is_right = code == 0 or what == ""
            else:
                is_right = matches(block.output, printed, block.is_part)
            if is_right:
                passed += 1
            else:
                failed += 1
                print(f"FAILED {where} (exit code {code}):\n{printed}\n  shown is:\n{block.output}")
    finally:
        shell.end()
        shutil.rmtree(directory, ignore_errors=True)
    return passed, failed, not_run


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    binary = os.path.abspath(sys.argv[1])
    counts = [0, 0, 0]
    for page in sys.argv[2:] or PAGES:
        page_counts = play(page, binary)
        print(f"{page}: {page_counts[0]} as shown, {page_counts[1]} not, {page_counts[2]} not run")
        counts = [sum(pair) for pair in zip(counts, page_counts)]
    print(f"{counts[0]} passed, {counts[1]} failed")
    sys.exit(1 if counts[1] else 0)


main()
