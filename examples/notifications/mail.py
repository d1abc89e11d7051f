"""A webhook that sends each notification as a mail. It needs Python alone.

python mail.py --port 8025 --smtp mail.example:25 --sender detflow@example --to team@example
Then: detflow run settings.yaml --set notify.webhook_env=HOOK --set notify.kind=generic
with the variable HOOK=http://THIS_MACHINE:8025/. Whoever reaches the port can send these mails: keep it on a
private network.
"""

import argparse
import email.message
import email.policy
import json
import smtplib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MOST_BYTES = 1_000_000


def make_mail(told: dict, sender: str, to: list[str]) -> email.message.EmailMessage:
    """Return a notification as a mail."""
    mail = email.message.EmailMessage(email.policy.SMTP)
    mail["From"], mail["To"] = sender, ", ".join(to)
    subject = f"{told['pipeline']} {told['run_id']}: {told['verdict']}"
    mail["Subject"] = "".join(c if c.isprintable() else " " for c in subject)
    lines = [*told["reasons"], told["report"]]
    if told["map"] is not None:
        change = "" if told["map_change"] is None else f", {told['map_change']:+.3f} against the deployed one"
        lines.insert(0, f"mAP {told['map']:.3f}{change}")
    mail.set_content("\n".join(lines))
    return mail


def serve(options: argparse.Namespace) -> ThreadingHTTPServer:
    """Return a server that sends a mail for each notification; 503 asks for another attempt."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(self.answer())
            self.send_header("Content-Length", "0")
            self.end_headers()

        def answer(self) -> int:
            try:
                size = int(self.headers["Content-Length"])
                told = json.loads(self.rfile.read(size)) if 0 <= size <= MOST_BYTES else {}
                mail = make_mail(told, options.sender, options.to)
            except (KeyError, TypeError, ValueError):
                return 400
            try:
                host, _, port = options.smtp.partition(":")
                with smtplib.SMTP(host, int(port or 25), timeout=8) as smtp:
                    smtp.send_message(mail)
            except OSError:  # SMTPException is one
                return 503
            return 204

    return ThreadingHTTPServer((options.host, options.port), Handler)


def parse(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=8025)
    parser.add_argument("--smtp", default="localhost:25", help="mail server, HOST:PORT")
    parser.add_argument("--sender", required=True)
    parser.add_argument("--to", required=True, action="append", help="may be repeated")
    return parser.parse_args(words)


if __name__ == "__main__":
    serve(parse()).serve_forever()
