"""The newest picture of each camera; older ones are forgotten, and none is made that nobody looks at."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from piper_collect.errors import ImageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One picture of a camera.

    Attributes:
        count: Its number among those of this camera, from 1.
        jpeg: The bytes to send.
    """

    count: int
    jpeg: bytes


class Panels:
    """Takes pictures from any thread, gives the newest of a camera as JPEG in the server's loop.

    Args:
        cameras: Their names, in the order that they are shown in.
    """

    def __init__(self, cameras: Sequence[str]) -> None:
        self.cameras = tuple(cameras)
        self.faults: dict[str, str] = {}
        self._newest: dict[str, tuple[int, Callable[[], bytes]]] = {}
        self._made: dict[str, Picture] = {}
        self._making: dict[str, asyncio.Future[Picture | None]] = {}
        self._lock = threading.Lock()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="panels")

    def offer(self, camera: str, make: Callable[[], bytes]) -> None:
        """Take the newest picture of ``camera``.

        Args:
            camera: One of ``cameras``.
            make: Gives its JPEG; called only if it is wanted; may raise ImageError.
        """
        with self._lock:
            self._newest[camera] = (self.count(camera) + 1, make)

    def count(self, camera: str) -> int:
        """How many pictures of ``camera`` were offered so far."""
        return self._newest[camera][0] if camera in self._newest else 0

    async def newest(self, camera: str) -> Picture | None:
        """The newest picture; None where there is none, or it is no picture (see ``faults``)."""
        made = self._made.get(camera)
        if made is not None and made.count == self.count(camera):
            return made
        if camera not in self._making:  # several watchers wait for one picture
            loop = asyncio.get_running_loop()
            self._making[camera] = loop.run_in_executor(self._worker, self._make, camera)
        try:
            made = await asyncio.shield(self._making[camera])
        finally:
            self._making.pop(camera, None)
        if made is not None:
            self._made[camera] = made
        return made

    def close(self) -> None:
        """End the worker."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _make(self, camera: str) -> Picture | None:
        with self._lock:
            count, make = self._newest.get(camera, (0, bytes))
        if not count:
            return None
        try:
            picture = Picture(count=count, jpeg=make())
        except ImageError as err:
            self.faults[camera] = str(err)
            return None
        self.faults.pop(camera, None)
        return picture
