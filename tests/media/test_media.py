"""Merchants' pictures: hostile ones refused, the rest drawn anew, nothing of ours reached."""

import hashlib
import random
import struct
import subprocess
import sys
import zlib
from collections.abc import AsyncIterator
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest
from PIL import Image

from conftest import running_api
from support.api import Api, Tenant, assert_refused, new_tenant
from support.sink import Sink, running_sink
from vintem.kit.clock import utc_now
from vintem.kit.errors import ErrorCode, Refusal
from vintem.media import redraw, service
from vintem.media.model import BOXES, FETCHED_BYTES_MAX, NotAPictureError, Picture, Use
from vintem.runtime.db import Database
from vintem.runtime.outbound import Outbound
from vintem.settings import Settings


@pytest.fixture
async def outbound() -> AsyncIterator[Outbound]:
    opened = Outbound()
    yield opened
    await opened.close()


@pytest.fixture
async def sink() -> AsyncIterator[Sink]:
    async with running_sink() as running:
        yield running


def picture(
    form: str = "PNG",
    size: tuple[int, int] = (300, 120),
    colour: object = (200, 30, 60),
    mode: str = "RGB",
    **options: Any,
) -> bytes:
    written = BytesIO()
    Image.new(mode, size, colour).save(written, form, **options)  # type: ignore[arg-type]
    return written.getvalue()


def noise(size: tuple[int, int]) -> Image.Image:
    return Image.frombytes("RGB", size, random.Random(7).randbytes(size[0] * size[1] * 3))


async def keep(
    database: Database, tenant: Tenant, content: bytes, use: Use = Use.LOGO, *, env: str = "test"
) -> Picture:
    return await service.keep(
        database,
        content,
        use=use,
        company_id=tenant.company.company_id,
        environment=env,
        now=utc_now(),
    )


async def refused(database: Database, tenant: Tenant, content: bytes) -> str:
    with pytest.raises(Refusal) as caught:
        await keep(database, tenant, content)
    assert caught.value.code is ErrorCode.INVALID_URL
    return caught.value.message


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF"])
async def test_a_picture_is_served_as_webp_under_its_digest(
    api: Api, database: Database, tenant: Tenant, form: str
) -> None:
    content = picture(form, mode="P", colour=3) if form == "GIF" else picture(form)
    kept = await keep(database, tenant, content)
    reply = await api.get(kept.path)
    assert reply.status == 200
    assert hashlib.sha256(reply.body).hexdigest() == kept.digest
    assert reply.headers["content-type"] == "image/webp"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert reply.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert int(reply.headers["x-ratelimit-remaining"]) >= 0
    with Image.open(BytesIO(reply.body)) as shown:
        assert (shown.format, shown.size) == ("WEBP", (kept.width, kept.height))
        assert shown.size == (300, 120)
    assert Picture.named(kept.name) == kept
    for name in ("", kept.digest, f"{kept.name}/x", f"../{kept.name}", kept.name.upper()):
        assert Picture.named(name) is None


@pytest.mark.parametrize("use", Use)
def test_a_large_picture_is_made_to_fit(use: Use) -> None:
    box = BOXES[use]
    wide = redraw.draw(picture(size=(4_000, 1_000)), box)
    assert (wide.width, wide.height) == (box.width, box.width // 4)
    tall = redraw.draw(picture(size=(1_000, 4_000)), box)
    assert (tall.width, tall.height) == (box.height // 4, box.height)


def test_a_photograph_stays_light() -> None:
    written = BytesIO()
    # The worst case for any encoder, at the size of a banner.
    noise((1_200, 400)).resize((2_400, 800)).save(written, "JPEG", quality=60)
    drawn = redraw.draw(written.getvalue(), BOXES[Use.BANNER])
    assert len(drawn.content) < FETCHED_BYTES_MAX / 4


async def test_transparency_and_uprightness_survive_and_nothing_else(
    database: Database, tenant: Tenant
) -> None:
    marked = Image.new("RGB", (200, 100), (10, 20, 30))
    exif = marked.getexif()
    exif[0x0112] = 6  # lies on its side
    exif[0x013B] = "SECRET AUTHOR"
    written = BytesIO()
    marked.save(written, "JPEG", exif=exif, icc_profile=b"SECRET PROFILE", comment=b"SECRET NOTE")
    assert b"SECRET AUTHOR" in written.getvalue()
    kept = await keep(database, tenant, written.getvalue())
    content = await service.read(database, kept.digest)
    assert content is not None
    assert (kept.width, kept.height) == (100, 200)
    assert b"SECRET" not in content
    for mark in (b"EXIF", b"ICCP", b"XMP "):
        assert mark not in content

    clear = await keep(database, tenant, picture(mode="RGBA", colour=(1, 2, 3, 0)))
    content = await service.read(database, clear.digest)
    assert content is not None
    with Image.open(BytesIO(content)) as shown:
        pixel = shown.convert("RGBA").getpixel((5, 5))
        assert isinstance(pixel, tuple)
        assert pixel[3] == 0


def test_only_the_first_frame_is_kept() -> None:
    written = BytesIO()
    frames = [Image.new("RGB", (50, 50), (shade, 0, 0)) for shade in range(0, 250, 10)]
    frames[0].save(written, "GIF", save_all=True, append_images=frames[1:])
    drawn = redraw.draw(written.getvalue(), BOXES[Use.LOGO])
    with Image.open(BytesIO(drawn.content)) as shown:
        assert getattr(shown, "n_frames", 1) == 1


def png_claiming(width: int, height: int) -> bytes:
    """A small file that unpacks to as many pixels as it claims."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes((width + 7) // 8 + 1) * height, 9)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("size", [(10_001, 1), (1, 10_001), (5_001, 5_000), (60_000, 60_000)])
def test_a_bomb_is_refused_by_its_header(size: tuple[int, int]) -> None:
    bomb = png_claiming(*size)
    assert len(bomb) < FETCHED_BYTES_MAX
    with pytest.raises(NotAPictureError, match=redraw.TOO_LARGE):
        redraw.draw(bomb, BOXES[Use.LOGO])


async def test_a_picture_that_just_fits_the_limits_is_drawn(
    database: Database, tenant: Tenant
) -> None:
    kept = await keep(database, tenant, png_claiming(5_000, 5_000))
    assert (kept.width, kept.height) == (240, 240)


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
HOSTILE = {
    "nothing": b"",
    "SVG": SVG,
    "SVG with a prologue": b'<?xml version="1.0"?>' + SVG,
    "HTML": b"<!doctype html><script>alert(1)</script>",
    "HTML that begins like a GIF": b"GIF89a=1;/*<script>alert(1)</script>*/",
    "a PNG's first bytes only": picture()[:16],
    "a truncated PNG": picture(size=(200, 200))[:-40],
    "a truncated JPEG": picture("JPEG", size=(400, 400))[:-200],
    "a truncated WebP": picture("WEBP", size=(400, 400))[:60],
    "TIFF": picture("TIFF"),
    "BMP": picture("BMP"),
    "ICO": picture("ICO"),
    "PPM": picture("PPM"),
    "EPS": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nquit\n",
    "PDF": b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog >>\nendobj\n",
    "random bytes": random.Random(1).randbytes(5_000),
    "a broken chunk in a PNG": picture()[:33] + struct.pack(">I", 9) + b"zTXt" + bytes(13),
}  # fmt: skip


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_what_is_no_picture_of_ours_is_refused(content: bytes) -> None:
    with pytest.raises(NotAPictureError, match=redraw.NOT_READABLE):
        redraw.draw(content, BOXES[Use.LOGO])


async def test_a_refusal_is_heard_from_the_process_that_draws(
    database: Database, tenant: Tenant
) -> None:
    assert await refused(database, tenant, SVG) == redraw.NOT_READABLE
    assert await refused(database, tenant, png_claiming(10_001, 1)) == redraw.TOO_LARGE


def test_damaged_pictures_never_do_more_than_be_refused() -> None:
    dice = random.Random(20_261_115)
    whole = [picture(form, size=(40, 30)) for form in ("PNG", "JPEG", "WEBP", "GIF")]
    for _ in range(300):
        damaged = bytearray(dice.choice(whole))
        for _ in range(dice.randint(1, 12)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        try:
            drawn = redraw.draw(bytes(damaged), BOXES[Use.LOGO])
        except NotAPictureError:
            continue
        assert drawn.content[:4] == b"RIFF"


async def test_what_follows_a_picture_is_not_kept(database: Database, tenant: Tenant) -> None:
    kept = await keep(database, tenant, picture() + b"<script>alert('polyglot')</script>")
    content = await service.read(database, kept.digest)
    assert content is not None
    assert b"script" not in content


async def test_pictures_are_fetched_once_when_they_are_saved(
    database: Database, tenant: Tenant, outbound: Outbound, sink: Sink
) -> None:
    answers = {"/logo.png": (200, picture()), "/moved": (302, b""), "/gone": (404, picture()),
               "/huge": (200, bytes(FETCHED_BYTES_MAX + 10)), "/page": (200, SVG)}  # fmt: skip
    for path, (status, content) in answers.items():
        sink.serve(path, status, content, headers={"location": "/logo.png"})

    async def rehost(path: str) -> Picture:
        return await service.rehost(
            database, outbound, sink.url(path), use=Use.LOGO, allows_loopback=True,
            company_id=tenant.company.company_id, environment="test", now=utc_now(),
        )  # fmt: skip

    kept = await rehost("/logo.png")
    assert await service.read(database, kept.digest) is not None
    (call,) = sink.at("/logo.png")
    assert "cookie" not in call.headers
    for path, said in {
        "/moved": "the answer was 302",
        "/gone": "the answer was 404",
        "/huge": "larger than 2 MB",
        "/page": redraw.NOT_READABLE,
    }.items():
        with pytest.raises(Refusal) as caught:
            await rehost(path)
        assert caught.value.code is ErrorCode.INVALID_URL
        assert said in caught.value.message
    assert len(sink.at("/logo.png")) == 1, "a redirect was followed"


PRIVATE = [
    "http://loja.com.br/logo.png", "https://127.0.0.1/x", "https://localhost/x", "https://[::1]/x",
    "https://169.254.169.254/latest/meta-data", "https://10.0.0.1/", "https://192.168.0.1/x.png",
    "https://2130706433/", "https://0x7f.1/", "https://metadata.google.internal/", "file:///etc/passwd",
    "https://loja.com.br:22/", "https://user@loja.com.br/x.png", "data:image/png;base64,AAAA",
    "//loja.com.br/x.png", "javascript:alert(1)", "https://router.lan/x.png",
]  # fmt: skip


@pytest.mark.parametrize("url", PRIVATE)
async def test_addresses_of_our_own_network_are_not_fetched(
    database: Database, tenant: Tenant, outbound: Outbound, url: str
) -> None:
    with pytest.raises(Refusal) as caught:
        await service.rehost(
            database, outbound, url, use=Use.LOGO,
            company_id=tenant.company.company_id, environment="test", now=utc_now(),
        )  # fmt: skip
    assert caught.value.code is ErrorCode.INVALID_URL


async def test_a_name_that_leads_into_our_network_is_not_fetched(
    database: Database, tenant: Tenant, sink: Sink
) -> None:
    def resolve(host: str, port: int) -> list[str]:
        del host, port
        return ["93.184.216.34", "127.0.0.1"]

    rebinding = Outbound(ask=resolve)
    with pytest.raises(Refusal, match="not on the open internet"):
        await service.rehost(
            database, rebinding, "https://loja.com.br:8443/x.png", use=Use.LOGO,
            company_id=tenant.company.company_id, environment="test", now=utc_now(),
        )  # fmt: skip
    await rebinding.close()
    assert sink.arrived == []


async def test_the_same_picture_is_kept_once_a_company_and_shown_to_all(
    api: Api, database: Database, tenant: Tenant
) -> None:
    other = await new_tenant(database)
    content = picture(colour=(9, 9, 9))
    first = await keep(database, tenant, content)
    assert await keep(database, tenant, content) == first
    assert await keep(database, tenant, content, env="live") == first
    assert await keep(database, other, content) == first
    rows = await database.fetch(
        "select company_id, environment from media_picture where digest = $1 order by 1, 2",
        bytes.fromhex(first.digest),
    )
    mine, others = tenant.company.company_id, other.company.company_id
    found = [(row["company_id"], row["environment"]) for row in rows]
    assert found == [(mine, "live"), (mine, "test"), (others, "test")]
    assert (await api.get(first.path)).status == 200


@pytest.mark.parametrize(
    "name", ["0" * 64, "A" * 64, "0" * 63, "0" * 65, "x", "%2e%2e", "0" * 62 + "%00"]
)
async def test_an_unknown_picture_is_nowhere(api: Api, name: str) -> None:
    reply = await api.get(f"/media/{name}")
    assert_refused(reply, ErrorCode.NOT_FOUND, status=404)


async def test_pictures_have_a_limit_of_their_own(settings: Settings) -> None:
    async with running_api(replace(settings, public_media_per_minute=3)) as api:
        statuses = [(await api.get("/media/" + "0" * 64)).status for _ in range(4)]
        assert statuses == [404, 404, 404, 429]
        reply = await api.get("/media/" + "0" * 64)
        assert_refused(reply, ErrorCode.RATE_LIMIT_EXCEEDED, status=429)
        assert int(reply.headers["retry-after"]) >= 1
        assert reply.headers["x-ratelimit-limit"] == "3"
        assert (await api.get("/v1/pix/unknown.svg")).status == 404


def test_a_process_that_answers_calls_loads_no_decoder() -> None:
    question = (
        "import sys, vintem.launch, vintem.media.service;"
        "print('PIL' in sys.modules, 'PIL.Image' in sys.modules)"
    )
    said = subprocess.run(
        [sys.executable, "-c", question], capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ["False", "False"]


async def test_a_decoder_that_dies_is_the_pictures_fault(
    database: Database, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert await refused(database, tenant, picture()) == redraw.NOT_READABLE
