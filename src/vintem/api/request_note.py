"""What a company can read later of a call that its key made."""

from vintem.api.call import Call
from vintem.companies.model import Caller
from vintem.kit.ids import ANY_ID
from vintem.requests.model import BODY_BYTES_MAX, REFUSED_STATUS, LoggedCall
from vintem.runtime.rate_limit import Decision


def note_request(
    call: Call,
    caller: Caller,
    route: str,
    status: int,
    code: str,
    seconds: float,
    decision: Decision | None,
    raw_body: bytes,
) -> None:
    """Hand a call to the log; its body only when it was refused, to be made readable later."""
    requests = call.resources.requests
    if not requests.admits(caller.company_id, caller.environment, caller.key_id, status):
        return
    record_id = call.params.get("id", "")
    is_body_kept = status >= REFUSED_STATUS and len(raw_body) <= BODY_BYTES_MAX
    requests.note(
        LoggedCall(
            company_id=caller.company_id,
            environment=caller.environment,
            request_id=call.request_id,
            at=call.now,
            method=call.method,
            route=route,
            record_id=record_id if record_id and ANY_ID.fullmatch(record_id) else "",
            status=status,
            code=code,
            key_id=caller.key_id,
            client_ip=call.client_ip,
            correlation_id=call.correlation_id,
            microseconds=int(seconds * 1_000_000),
            remaining=None if decision is None else decision.remaining,
            raw=raw_body if is_body_kept else b"",
        )
    )
