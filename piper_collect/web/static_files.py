"""The files that the pages consist of, read once, so that no path is ever looked up."""

import mimetypes
from importlib.resources import files

from aiohttp import web
from aiohttp.typedefs import Handler

_TYPES = {".js": "text/javascript", ".html": "text/html", ".css": "text/css", ".svg": "image/svg+xml"}


def page_files(folder: str = "static") -> dict[str, tuple[str, bytes]]:
    """The files right in ``folder`` by name: their type and content.

    Args:
        folder: Below this package.
    """
    found = {}
    for file in files("piper_collect.web").joinpath(folder).iterdir():
        suffix = f".{file.name.rpartition('.')[2]}"
        kind = _TYPES.get(suffix) or mimetypes.types_map.get(suffix)
        if kind is not None and file.is_file():
            found[file.name] = (kind, file.read_bytes())
    return found


def file_answer(kind: str, content: bytes) -> Handler:
    """The handler that answers with a file."""
    charset = "utf-8" if kind.startswith("text/") or "svg" in kind else None

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=content, content_type=kind, charset=charset)

    return answer
