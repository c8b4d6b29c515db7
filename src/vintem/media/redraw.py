"""Draws a stranger's picture anew, in a process that ends with it.

What decodes pictures is large, written in C, and fed by strangers here. So it runs apart, with
little memory and little time: a picture that breaks it breaks nothing else, and no process that
answers calls ever loads it.
"""

import asyncio
import resource
import sys
from io import BytesIO
from typing import TYPE_CHECKING, Final

from vintem.media.model import BOXES, Box, Drawn, NotAPictureError, Use

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

FORMATS: Final = ("PNG", "JPEG", "WEBP", "GIF")
SIDE_PIXELS_MAX: Final = 10_000
PIXELS_MAX: Final = 25_000_000
MEMORY_BYTES_MAX: Final = 1024 * 1024 * 1024
PROCESSOR_SECONDS_MAX: Final = 10
WALL_SECONDS_MAX: Final = 20.0
HEADER: Final = "{width} {height}\n"
QUALITY: Final = 82
# Flat colours stay sharp without loss, and are small; a photograph saved that way is not.
LOSSLESS_BYTES_MAX: Final = 60_000

NOT_READABLE: Final = "The picture must be a whole PNG, JPEG, WebP or GIF."
TOO_LARGE: Final = (
    f"The picture must have at most {SIDE_PIXELS_MAX} pixels a side,"
    f" and {PIXELS_MAX // 1_000_000} million in all."
)
REFUSED_STATUS: Final = 3


async def redraw(content: bytes, use: Use) -> Drawn:
    """Draw a picture anew, or raise NotAPictureError."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-m", "vintem.media.redraw", use),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
    )
    try:
        async with asyncio.timeout(WALL_SECONDS_MAX):
            said, _ = await process.communicate(content)
    except TimeoutError:
        raise NotAPictureError(NOT_READABLE) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == REFUSED_STATUS:
        raise NotAPictureError(said.decode())
    if process.returncode != 0:
        raise NotAPictureError(NOT_READABLE)
    header, _, drawn = said.partition(b"\n")
    width, height = header.split()
    return Drawn(drawn, int(width), int(height))


def main() -> None:
    """Read a picture from standard input and write it, drawn anew, to standard output."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS_MAX, PROCESSOR_SECONDS_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        drawn = draw(sys.stdin.buffer.read(), BOXES[Use(sys.argv[1])])
    except NotAPictureError as refusal:
        sys.stdout.write(str(refusal))
        sys.exit(REFUSED_STATUS)
    sys.stdout.buffer.write(HEADER.format(width=drawn.width, height=drawn.height).encode())
    sys.stdout.buffer.write(drawn.content)


def draw(content: bytes, box: Box) -> Drawn:
    """Decode the first frame, make it fit, and encode nothing but its pixels."""
    from PIL import Image, ImageOps  # noqa: PLC0415

    # Our own limit is below the library's, which would only warn.
    Image.MAX_IMAGE_PIXELS = None
    try:
        with Image.open(BytesIO(content), formats=FORMATS) as opened:
            # Only the header is read yet: nothing has been unpacked.
            check_size(*opened.size)
            is_photograph = opened.format == "JPEG"
            opened.draft("RGB", (box.width, box.height))
            opened.load()
            upright = ImageOps.exif_transpose(opened)
            mode = "RGBA" if upright.has_transparency_data else "RGB"
            picture = upright.convert(mode)
            picture.thumbnail((box.width, box.height))
            return Drawn(
                encode(picture, is_photograph=is_photograph), picture.width, picture.height
            )
    except NotAPictureError:
        raise
    except Exception as fault:
        # Whatever a decoder stumbles over in a stranger's bytes: it is the picture's fault.
        raise NotAPictureError(NOT_READABLE) from fault


def check_size(width: int, height: int) -> None:
    """Refuse what would take too much memory."""
    if max(width, height) > SIDE_PIXELS_MAX or width * height > PIXELS_MAX:
        raise NotAPictureError(TOO_LARGE)


def encode(picture: "PillowImage", *, is_photograph: bool) -> bytes:
    """Write pixels, and nothing else that came with them."""
    picture.info.clear()
    if not is_photograph:
        lossless = BytesIO()
        picture.save(lossless, "WEBP", lossless=True, method=4)
        if lossless.tell() <= LOSSLESS_BYTES_MAX:
            return lossless.getvalue()
    lossy = BytesIO()
    picture.save(lossy, "WEBP", quality=QUALITY, method=4)
    return lossy.getvalue()


if __name__ == "__main__":
    main()
