"""What every answer of the server carries, and which requests get none."""

from collections.abc import Sequence

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from piper_collect.web.addresses import is_loopback

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "xr-spatial-tracking=(self), camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}


def host_of(request: web.BaseRequest) -> str:
    """The host that the browser thinks it talks to, without the port, in lower case."""
    host = request.headers.get("Host", "").lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def known_host(request: web.BaseRequest, names: Sequence[str]) -> bool:
    """Whether the page was opened by a name or address of this machine.

    A foreign name that was made to point here (DNS rebinding) would let another site's page talk to us. An
    address must be the one that the connection came in on, or of the loopback.
    """
    host = host_of(request)
    if host in names or is_loopback(host):
        return True
    transport = request.transport
    local = transport.get_extra_info("sockname") if transport is not None else None
    return local is not None and host == str(local[0]).removeprefix("::ffff:").partition("%")[0]


def same_origin(request: web.BaseRequest) -> bool:
    """Whether the page that asks was served by us under the very address that it asks at.

    A socket without an Origin is not opened by a browser, and is not the page.
    """
    host = request.headers.get("Host", "").lower()
    return request.headers.get("Origin", "").lower() == f"{request.scheme}://{host}"


def guard(names: Sequence[str], setting: str) -> Middleware:
    """The middleware that refuses what is not addressed to us.

    Args:
        names: Host names that the page may be opened by.
        setting: Where the configuration has them, for people.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not known_host(request, names):
            return web.Response(
                status=421,
                text=f"This server does not go by the name {host_of(request)[:80]!r}. "
                f"Open it by its address, or add the name to {setting}.\n",
            )
        if request.headers.get("Upgrade") and not same_origin(request):
            return web.Response(status=403, text="This socket is for our own page.\n")
        try:
            return await handler(request)
        except web.HTTPException as answer:
            return web.Response(status=answer.status, text=f"{answer.status}: {answer.reason}\n")

    return check


async def add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    """Put the headers on an answer that is about to go out."""
    response.headers.update(HEADERS)
    response.headers.pop("Server", None)
