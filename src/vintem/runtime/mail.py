"""Mail: plain text, sent in the background through somebody else's server."""

import asyncio
import smtplib
import ssl
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from enum import StrEnum
from typing import Final

import structlog

from vintem.runtime import log as logs

log = structlog.get_logger()

SECONDS_MAX: Final = 15.0
PAUSES_SECONDS: Final = (1.0, 5.0, 30.0)
WAITING_MAX: Final = 200
CLOSE_SECONDS_MAX: Final = 5.0


class MailTls(StrEnum):
    """How the way to the server is protected."""

    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class MailServer:
    """The server that takes our mail; an empty host stands for none."""

    host: str
    port: int
    user: str
    password: str
    sender: str
    tls: MailTls


class Mail:
    """Sends mail; what cannot be sent is tried again a few times, and then only logged."""

    def __init__(self, server: MailServer, *, is_logged: bool) -> None:
        self._server = server
        self._is_logged = is_logged
        self._sending: set[asyncio.Task[None]] = set()

    @property
    def has_server(self) -> bool:
        """Say whether mail reaches anybody."""
        return bool(self._server.host)

    def send_later(self, *, to: str, subject: str, text: str) -> None:
        """Send a mail without letting anybody wait for it."""
        if not self.has_server:
            if self._is_logged:
                _show(to, subject, text)
            return
        if len(self._sending) >= WAITING_MAX:
            log.warning("mail dropped: too many are waiting", subject=subject)
            return
        message = self._message(to, subject, text)
        task = asyncio.create_task(self._send(message), name="mail")
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def close(self) -> None:
        """Wait a little for what is on its way."""
        if self._sending:
            _, late = await asyncio.wait(self._sending, timeout=CLOSE_SECONDS_MAX)
            for task in late:
                task.cancel()

    def _message(self, to: str, subject: str, text: str) -> EmailMessage:
        message = EmailMessage()
        message["From"] = self._server.sender
        message["To"] = to
        message["Subject"] = subject
        message["Date"] = formatdate()
        message["Message-ID"] = make_msgid(domain=self._server.sender.rpartition("@")[2].strip(">"))
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(text)
        return message

    async def _send(self, message: EmailMessage) -> None:
        subject = message["Subject"]
        for pause in (*PAUSES_SECONDS, None):
            try:
                await asyncio.to_thread(deliver, self._server, message)
            except (OSError, smtplib.SMTPException) as fault:
                if pause is None:
                    log.warning("mail not sent", subject=subject, cause=type(fault).__name__)
                    return
                log.warning("mail tried again", subject=subject, cause=type(fault).__name__)
                await asyncio.sleep(pause)
            else:
                log.info("mail sent", subject=subject)
                return


def deliver(server: MailServer, message: EmailMessage) -> None:
    """Hand a mail over to the server, in a thread."""
    context = ssl.create_default_context()
    if server.tls is MailTls.TLS:
        connection: smtplib.SMTP = smtplib.SMTP_SSL(
            server.host, server.port, timeout=SECONDS_MAX, context=context
        )
    else:
        connection = smtplib.SMTP(server.host, server.port, timeout=SECONDS_MAX)
    with connection:
        if server.tls is MailTls.STARTTLS:
            connection.starttls(context=context)
        if server.user:
            connection.login(server.user, server.password)
        connection.send_message(message)


def _show(to: str, subject: str, text: str) -> None:
    # Not a line of the log: those are redacted, and whoever tries the platform needs the link.
    logs.flush_access()
    logs.Output.stream.write(f"--- mail to {to}: {subject}\n{text}\n---\n")
    logs.Output.stream.flush()
