"""A server that takes mail and keeps it, for tests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage


@dataclass
class Mailbox:
    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)

    async def next_mail(self, number: int = 1) -> EmailMessage:
        """Wait for the mail of that number, counted from one."""
        async with asyncio.timeout(10):
            while len(self.mails) < number:
                await asyncio.sleep(0.01)
        return self.mails[number - 1]

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 test\r\n")
        while line := await reader.readline():
            word = line[:4].upper()
            if word == b"DATA":
                writer.write(b"354 go on\r\n")
                content = await reader.readuntil(b"\r\n.\r\n")
                parsed = message_from_bytes(content[:-3], policy=policy.default)
                assert isinstance(parsed, EmailMessage)
                self.mails.append(parsed)
            writer.write(b"250 ok\r\n" if word != b"QUIT" else b"221 bye\r\n")
            if word == b"QUIT":
                break
        writer.close()


@asynccontextmanager
async def receiving() -> AsyncIterator[Mailbox]:
    mailbox = Mailbox()
    server = await asyncio.start_server(mailbox.talk, "127.0.0.1", 0)
    mailbox.port = server.sockets[0].getsockname()[1]
    yield mailbox
    server.close()
    await server.wait_closed()
