"""From method and path to a route, made once from the table and checked while it is made."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from vintem.api.call import Access, Answer, Call, Content, Route
from vintem.kit.errors import ErrorCode, Refusal
from vintem.runtime.rate_limit import PublicLimit

PARAMETER: Final = re.compile(r"\{([a-zA-Z]+)\}")
ALLOWED_HEADERS: Final = b"content-type, x-idempotency-key, x-correlation-id"
BODY_METHODS: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})

_NO_PARAMS: Final[Mapping[str, str]] = {}


class RouteTableError(Exception):
    """The table is wrong, so the program does not start."""


class MethodNotAllowed(Refusal):
    """The path exists, but not with this method."""

    def __init__(self, allowed: Sequence[str]) -> None:
        super().__init__(ErrorCode.METHOD_NOT_ALLOWED, details={"allowed": list(allowed)})
        self.allowed = allowed


class Router:
    """Finds the route of a call; HEAD is answered as GET, OPTIONS where other pages may call."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._fixed: dict[str, dict[str, Route]] = {}
        self._patterns: dict[int, list[tuple[re.Pattern[str], dict[str, Route]]]] = {}
        by_path: dict[str, dict[str, Route]] = {}
        for route in routes:
            check(route)
            methods = by_path.setdefault(route.path, {})
            if route.method in methods:
                raise RouteTableError(f"{route.method} {route.path} is declared twice")
            methods[route.method] = route
        for path, methods in by_path.items():
            if "GET" in methods:
                methods.setdefault("HEAD", methods["GET"])
            gated = [route for route in methods.values() if route.gate is not None]
            if gated:
                methods["OPTIONS"] = _preflight(gated[0], sorted(methods))
            if PARAMETER.search(path):
                same_length = self._patterns.setdefault(path.count("/"), [])
                same_length.append((_pattern(path), methods))
            else:
                self._fixed[path] = methods

    def find(self, method: str, path: str) -> tuple[Route, Mapping[str, str]]:
        """Find the route and the values of its path parameters, or refuse."""
        methods = self._fixed.get(path)
        params = _NO_PARAMS
        if methods is None:
            for pattern, candidates in self._patterns.get(path.count("/"), ()):
                if match := pattern.fullmatch(path):
                    methods, params = candidates, match.groupdict()
                    break
        if methods is None:
            raise Refusal(ErrorCode.NOT_FOUND)
        route = methods.get(method)
        if route is None:
            raise MethodNotAllowed(sorted(methods))
        return route, params


def check(route: Route) -> None:
    """Refuse a declaration that leaves open who may call, how often, or with what."""
    name = f"{route.method} {route.path}"
    if route.access is None:
        raise RouteTableError(f"{name} does not declare who may call it")
    if route.access is not Access.PUBLIC and (route.public_limits or route.gate is not None):
        raise RouteTableError(f"{name} needs a key, and is limited and guarded by it")
    if route.access is not Access.PUBLIC and route.limit is None:
        raise RouteTableError(f"{name} needs a key but declares no rate limit")
    if route.body is not None and route.method not in BODY_METHODS:
        raise RouteTableError(f"{name} declares a body, which {route.method} does not carry")
    if route.is_body_raw and (route.body is not None or route.method not in BODY_METHODS):
        raise RouteTableError(f"{name} declares a raw body, and cannot have one")
    if route.is_form and (route.body is not None or route.is_body_raw or route.method != "POST"):
        raise RouteTableError(f"{name} declares a form, which comes alone and by POST")
    if route.is_idempotent and route.method != "POST":
        raise RouteTableError(f"{name} declares idempotency, which is for POST")


def _preflight(route: Route, methods: Sequence[str]) -> Route:
    """The answer to a browser that asks whether a page of another origin may make a call."""
    headers = (
        (b"access-control-allow-methods", ", ".join(methods).encode()),
        (b"access-control-allow-headers", ALLOWED_HEADERS),
        (b"access-control-max-age", b"600"),
        (b"cache-control", b"no-store"),
    )

    async def answer_preflight(_call: Call) -> Answer:
        return Content(b"", "text/plain", headers=headers)

    return replace(
        route,
        method="OPTIONS",
        handler=answer_preflight,
        public_limits=(PublicLimit.READS,),
        body=None,
        query=None,
        is_idempotent=False,
        is_described=False,
    )


def _pattern(path: str) -> re.Pattern[str]:
    parts = PARAMETER.split(path)
    return re.compile(
        "".join(
            # PostgreSQL stores no NUL, so no record has one in its id.
            f"(?P<{part}>[^/\\x00]+)" if position % 2 else re.escape(part)
            for position, part in enumerate(parts)
        )
    )
