#!/usr/bin/env python3
"""Runs the commands of documents against the binary and compares what they print with what is shown.

  python3 conformance/docs BINARY [FILE.md...]     without files: all that are in PAGES

A block of commands is a fenced block without a language; a fenced block right after one, with nothing but
blank lines between, is what it prints. A comment before a block says more:

  <!-- run: server -->        it starts the server: goes on once that listens
  <!-- run: background -->    it starts something else that goes on
  <!-- not run: REASON -->    it needs what is not here: another host, a browser
  <!-- needs: PROGRAM -->     it is not run where this program is not installed
  <!-- shown: part -->        before an output: its lines are some of those that are printed

A comment right below the title says what all blocks of the page need, with commas between:

  <!-- needs: server -->      a server that systemd has started, and a tenant: their credentials are in FAREGATE_...
  <!-- needs: postgres -->    PostgreSQL as db.example.org; the page is not run unless FAREGATE_TEST_POSTGRES names one,
                              as in `conformance/postgres python3 conformance/docs BINARY FILE.md`

All blocks of a page run one after another in one shell, in a directory with nothing but `ops`, `proto` and
target/release/faregate. The port 8080 is replaced by a free one, and PLACES by directories in that one; `systemctl`
is a script that starts the server as ops/systemd/faregate.service does. In outputs `...` stands for any text, and
ids, times, versions and secrets may differ.
"""

import contextlib
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import processes  # noqa: E402

PAGES = ["README.md", "docs/tutorial/first-flag.md", "docs/tutorial/first-sign-up.md",
         "docs/tutorial/first-payment.md", *sorted(glob.glob("docs/how-to/*.md", root_dir=ROOT))]
PORT_FIRST = 19_001
BLOCK_WITHIN_S = 60
END_WITHIN_S = 5
END = "--end-of-block--"

ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
MASKS = [(ID, "ID"), (r"[0-9a-f]{8}-\.\.\.", "ID"), (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
         (r"\b1\d{12}\b", "VERSION"), (r"[ \t]+", " ")]

PLACES = ["etc", "var/lib", "usr/local/bin", "backup", "safe"]
UNIT = "ops/systemd/faregate.service"
POSTGRES = dict(re.findall(r"(\w+)=(\S+)", os.environ.get("FAREGATE_TEST_POSTGRES", "")))

LISTENS = "grep -qsE '^(listening|Still serving)' server.log"
AWAIT_SERVER = f"for _ in $(seq 200); do {LISTENS} && break; sleep 0.05; done; {LISTENS}"
SYSTEMCTL = """#!/bin/bash
cd DIRECTORY
case "$*" in
  "start faregate" | "enable --now faregate")
    rm -f server.log
    env -i PATH="$PATH" FAREGATE_LISTEN="$FAREGATE_LISTEN" bash -c 'set -a
      ENVIRONMENT
      . ENVIRONMENT_FILE
      exec COMMAND' >server.log 2>&1 &
    echo $! >server.pid
    AWAIT_SERVER || { cat server.log; exit 1; };;
  "stop faregate" | "disable --now faregate")
    kill $(cat server.pid)
    while [ -e /proc/$(cat server.pid)/exe ]; do sleep 0.05; done;;
  "daemon-reload" | "disable faregate") ;;
  *) echo "not known here: systemctl $*"; exit 2;;
esac
"""
# What a page has that needs a server.
START = r"""
mkdir etc/faregate; touch etc/faregate.toml
(umask 077; echo FAREGATE_ADMIN_PASSWORD=password >etc/faregate/environment)
systemctl start faregate && : >etc/faregate/environment
export FAREGATE_PASSWORD=password FAREGATE_API_KEY=shop
export FAREGATE_API_SECRET=$(faregate tenants create --key shop --json | sed 's/.*"apiSecret":"\([^"]*\)".*/\1/')
"""


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
        comment = re.match(r"\s*<!-- ((?:not )?run|shown|needs): (.*?) -->$", lines[at])
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


def needs(page):
    """What all blocks of a page need."""
    comment = re.match(r"# .*\n\n<!-- needs: (.*?) -->\n", open(os.path.join(ROOT, page)).read())
    return comment[1].split(", ") if comment else []


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
        self.address = f"127.0.0.1:{processes.free_ports(PORT_FIRST, 1)[0]}"
        self.database = f"{POSTGRES.get('host')}:{POSTGRES.get('port')}"
        bin_directory = os.path.join(directory, "usr/local/bin")
        for place in ["target/release", *PLACES]:
            os.makedirs(os.path.join(directory, place))
        for name in ("ops", "proto"):
            os.symlink(os.path.join(ROOT, name), os.path.join(directory, name))
        for place in ["target/release", bin_directory]:
            os.symlink(binary, os.path.join(directory, place, "faregate"))
        with open(os.path.join(bin_directory, "systemctl"), "w") as script:
            os.chmod(script.fileno(), 0o755)
            script.write(self.systemctl())
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FAREGATE_")}
        own = {"PATH": f"{bin_directory}:{os.environ['PATH']}", "HOME": directory, "FAREGATE_LISTEN": self.address,
               "FAREGATE_URL": f"http://{self.address}"}
        if POSTGRES:
            own |= {"PGHOST": POSTGRES["host"], "PGPORT": POSTGRES["port"], "PGUSER": POSTGRES["user"]}
        self.process = subprocess.Popen(
            ["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            cwd=directory, env=kept | own, start_new_session=True)

    def systemctl(self):
        unit = dict(re.findall(r"^(\w+)=(.*)$", open(os.path.join(ROOT, UNIT)).read(), re.MULTILINE))
        script = SYSTEMCTL.replace("AWAIT_SERVER", AWAIT_SERVER).replace("DIRECTORY", self.directory)
        script = script.replace("ENVIRONMENT_FILE", unit["EnvironmentFile"].lstrip("-"))
        return self.placed(script.replace("ENVIRONMENT", unit["Environment"]).replace("COMMAND", unit["ExecStart"]))

    def placed(self, text):
        """A page's text with what there is here."""
        text = re.sub(rf"(?<![\w/.:-])/({'|'.join(PLACES)})\b", rf"{self.directory}/\1", text)
        text = text.replace("cargo run --release -- demo", f"faregate demo --listen {self.address}")
        return text.replace("127.0.0.1:8080", self.address).replace("db.example.org", self.database)

    def named(self, printed):
        """What was printed, as a page has it."""
        printed = printed.replace(f"{self.directory}/", "/").replace(self.database, "db.example.org:5432")
        return printed.replace(self.address, "127.0.0.1:8080")

    def run(self, text):
        """What it prints; its exit code is that of the last command."""
        late = threading.Timer(BLOCK_WITHIN_S, self.end, [signal.SIGKILL])
        late.start()
        self.process.stdin.write(f"{self.placed(text)}\necho; echo {END} $?\n")
        self.process.stdin.flush()
        printed = []
        for line in self.process.stdout:
            if line.startswith(END):
                late.cancel()
                return self.named("".join(printed)[:-1]), int(line.split()[1])
            printed.append(line)
        late.cancel()
        raise RuntimeError(f"the shell has ended, or a block took longer than {BLOCK_WITHIN_S} s:\n{text}")

    def end(self, which=signal.SIGTERM):
        """Ends it with all that it started, so that nothing writes into its directory any more."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, which)
            self.process.wait()
            processes.wait_until(self.is_gone, END_WITHIN_S)
            os.killpg(self.process.pid, signal.SIGKILL)

    def is_gone(self):
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return True
        return False


def play(page, binary):
    """How many blocks did what they show, did not, and were not run."""
    passed, failed, not_run = 0, 0, 0
    if "postgres" in needs(page) and not POSTGRES:
        return 0, 0, len(blocks(page))
    directory = tempfile.mkdtemp(prefix="faregate-docs-")
    shell = Shell(binary, directory)
    try:
        if "server" in needs(page):
            shell.run(START)
        for block in blocks(page):
            kind, what = block.mark or ("run", "")
            if kind == "not run" or kind == "needs" and not shutil.which(what):
                not_run += 1
                continue
            text = block.text
            if what == "server":
                text = f"rm -f server.log\n({text.rstrip('& ')}) >server.log 2>&1 &\n{AWAIT_SERVER}"
            elif what == "background":
                text += "\nsleep 1"
            printed, code = shell.run(text)
            if block.output is None:
                is_right = code == 0
            else:
                is_right = matches(block.output, printed, block.is_part)
            if is_right:
                passed += 1
            else:
                failed += 1
                print(f"FAILED {page}:{block.line} (exit code {code}):\n{printed}\n  shown is:\n{block.output}")
    except RuntimeError as ended:
        failed += 1
        print(f"FAILED {page}: {ended}")
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
