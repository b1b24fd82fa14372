"""Mail by SMTP servers that are not ours: aiosmtpd, in the clear, with STARTTLS and with TLS.

    python conformance/mail COMMAND...

Runs the command, which finds the servers in FAREGATE_TEST_SMTP, and looks at what arrived. The
command here is a test program of the crate mail.
"""

import email.policy
import email.utils
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import processes  # noqa: E402

PORT_FIRST = 19_201
TEMPLATES = 5
# What the tests put in for a name, and what may be left of it.
NAME = "Zoë Bcc injectedexample. net"
PLATFORM = "Müller & Söhne"
HEADERS = {
    "From",
    "To",
    "Subject",
    "Date",
    "Message-ID",
    "Auto-Submitted",
    "MIME-Version",
    "Content-Type",
}


class Box:
    """Takes mails, except for some recipients."""

    def __init__(self):
        self.mails = []
        self.logins = Counter()

    async def handle_RCPT(self, server, session, envelope, address, options):
        refusals = {"busy": "451 4.3.0 later", "nobody": "550 5.1.1 no such user"}
        refusal = refusals.get(address.partition("@")[0])
        if refusal is None:
            envelope.rcpt_tos.append(address)
        return refusal or "250 OK"

    async def handle_DATA(self, server, session, envelope):
        if envelope.rcpt_tos[0].startswith("spam@"):
            return "554 5.7.1 spam"
        self.mails.append((envelope, session.ssl is not None, bool(session.authenticated)))
        return "250 OK"

    def authenticate(self, server, session, envelope, mechanism, data):
        right = isinstance(data, LoginPassword) and data.login == b"me" and data.password == b"s3cret \xc3\xa9"
        self.logins[right] += 1
        return AuthResult(success=right, handled=False)


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def that(self, what, holds, seen=""):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {what}: {seen!r}")


def decoded(value):
    return "" if value is None else str(value)


def look_at(checks, way, envelope):
    raw = envelope.original_content
    mail = email.message_from_bytes(raw, policy=email.policy.default)
    where = f"{way}, {decoded(mail['Subject'])!r}"
    head = raw.partition(b"\r\n\r\n")[0]
    checks.that(f"{where}: lines end as they must", not re.search(rb"\r(?!\n)|(?<!\r)\n", raw))
    checks.that(f"{where}: headers are ASCII", head.isascii(), head)
    checks.that(f"{where}: no header is added", Counter(mail.keys()) == Counter(HEADERS), mail.keys())
    checks.that(f"{where}: envelope", envelope.mail_from == "noreply@example.org", envelope.mail_from)
    checks.that(f"{where}: one recipient", envelope.rcpt_tos == ["zoe@example.com"], envelope.rcpt_tos)
    sender, to = mail["From"].addresses, mail["To"].addresses
    checks.that(f"{where}: From", [(it.display_name, it.addr_spec) for it in sender] == [(PLATFORM, "noreply@example.org")], sender)
    checks.that(f"{where}: To", [(it.display_name, it.addr_spec) for it in to] == [(NAME, "zoe@example.com")], to)
    checks.that(f"{where}: Subject", PLATFORM in decoded(mail["Subject"]), mail["Subject"])
    checks.that(f"{where}: Message-ID", re.fullmatch(r"<[0-9a-f-]{36}@example\.org>", decoded(mail["Message-ID"])), mail["Message-ID"])
    checks.that(f"{where}: Date", email.utils.parsedate_to_datetime(mail["Date"]) is not None)
    checks.that(f"{where}: Auto-Submitted", mail["Auto-Submitted"] == "auto-generated", mail["Auto-Submitted"])
    checks.that(f"{where}: alternatives", mail.get_content_type() == "multipart/alternative", mail.get_content_type())
    parts = [part for part in mail.walk() if not part.is_multipart()]
    kinds = [(part.get_content_type(), part.get_content_charset()) for part in parts]
    checks.that(f"{where}: two parts", kinds == [("text/plain", "utf-8"), ("text/html", "utf-8")], kinds)
    text, html = (part.get_content() for part in parts)
    checks.that(f"{where}: the text", f"Hello {NAME}," in text and PLATFORM in text, text)
    checks.that(f"{where}: the HTML", f"Hello {NAME}," in html and "Müller &amp; Söhne" in html, html)
    return decoded(mail["Message-ID"])


def look_at_all(checks, boxes):
    seen = Counter()
    for way, box in boxes.items():
        ours = [mail for mail in box.mails if mail[0].rcpt_tos == ["zoe@example.com"]]
        checks.that(f"{way}: every mail arrived", len(ours) == TEMPLATES, len(ours))
        for envelope, encrypted, authenticated in ours:
            seen[look_at(checks, way, envelope)] += 1
            checks.that(f"{way}: logged in", authenticated == (way != "plain"), authenticated)
            checks.that(f"{way}: encrypted by STARTTLS", encrypted == (way == "starttls"), encrypted)
    checks.that("no mail came twice", all(times == 1 for times in seen.values()), seen)
    wide = [envelope for envelope, _, _ in boxes["plain"].mails if envelope.rcpt_tos == ["zoë@example.com"]]
    checks.that("SMTPUTF8", len(wide) == 1 and wide[0].smtp_utf8, wide)
    checks.that("a wrong password was refused", boxes["starttls"].logins[False] == 1, boxes["starttls"].logins)
    others = sum(len(box.mails) for box in boxes.values()) - len(boxes) * TEMPLATES
    checks.that("nothing else arrived", others == 1, others)


def main(command):
    checks = Checks()
    boxes = {way: Box() for way in ("plain", "starttls", "tls")}
    with tempfile.TemporaryDirectory() as scratch:
        authority = trustme.CA()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("localhost").configure_cert(context)
        ca, password = Path(scratch, "ca.pem"), Path(scratch, "password")
        authority.cert_pem.write_to_path(str(ca))
        password.touch(mode=0o600)
        password.write_text("s3cret é\n", encoding="utf-8")
        login = {"auth_required": True, "authenticator": boxes["starttls"].authenticate}
        options = {
            "plain": {"enable_SMTPUTF8": True},
            "starttls": {"tls_context": context, "require_starttls": True, **login},
            # It knows of no encryption but STARTTLS, and none stands here without it.
            "tls": {
                "ssl_context": context,
                "enable_SMTPUTF8": False,
                **login,
                "auth_require_tls": False,
                "authenticator": boxes["tls"].authenticate,
            },
        }
        ports = dict(zip(boxes, processes.free_ports(PORT_FIRST, len(boxes))))
        servers = {way: Controller(box, "127.0.0.1", ports[way], **options[way]) for way, box in boxes.items()}
        silent = socket.create_server(("127.0.0.1", 0))
        for server in servers.values():
            server.start()
        settings = {way: server.port for way, server in servers.items()}
        settings |= {"silent": silent.getsockname()[1], "ca": str(ca), "password_file": str(password)}
        try:
            done = subprocess.run(
                command,
                env={**os.environ, "FAREGATE_TEST_SMTP": json.dumps(settings)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
        finally:
            for server in servers.values():
                server.stop()
            silent.close()
    results = re.findall(r"(\d+) passed; (\d+) failed", done.stdout)
    if done.returncode or not any(int(passed) for passed, _ in results):
        print(done.stdout)
        checks.that("the command", False, done.returncode)
    checks.passed += sum(int(passed) for passed, _ in results)
    look_at_all(checks, boxes)
    print(f"{checks.passed} passed, {checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
