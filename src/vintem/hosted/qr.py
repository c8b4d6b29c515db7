"""The picture of a PIX code inside a page: drawn once a code, and kept."""

import asyncio
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from vintem.brazil.qr_picture import draw_svg

KEPT_CHARACTERS_MAX: Final = 16 * 1024 * 1024


class QrPictures:
    """What was drawn last, as much of it as may be kept."""

    def __init__(self, *, characters_max: int) -> None:
        self._characters_left = characters_max
        self._kept: OrderedDict[str, str] = OrderedDict()
        # A drawing takes tens of milliseconds, for which no other call shall wait.
        self._hand = ThreadPoolExecutor(1, thread_name_prefix="qr")

    async def picture_of(self, code: str) -> str:
        """Give the markup of a code's picture."""
        picture = self._kept.get(code)
        if picture is None:
            loop = asyncio.get_running_loop()
            picture = (await loop.run_in_executor(self._hand, draw_svg, code)).decode()
            self._keep(code, picture)
        else:
            self._kept.move_to_end(code)
        return picture

    def _keep(self, code: str, picture: str) -> None:
        self._characters_left += len(self._kept.pop(code, "")) - len(picture)
        self._kept[code] = picture
        while self._characters_left < 0:
            _, dropped = self._kept.popitem(last=False)
            self._characters_left += len(dropped)


pictures: Final = QrPictures(characters_max=KEPT_CHARACTERS_MAX)
