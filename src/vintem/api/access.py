"""From the x-api-key header to a Caller, and what each kind of key may do."""

from collections.abc import Mapping
from ipaddress import ip_address

from vintem.api.call import Access, Call
from vintem.companies import keys
from vintem.companies.model import Caller, Environment, KeyType
from vintem.kit.errors import ErrorCode, Refusal
from vintem.resources import Resources
from vintem.runtime.rate_limit import Decision, PublicLimit, Window

WRONG_KEYS_WINDOW_SECONDS = 60


class TooManyWrongKeys(Refusal):
    """An address has sent too many wrong keys; right ones still pass."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(
            ErrorCode.RATE_LIMIT_EXCEEDED,
            "Too many wrong API keys from this address; wait as long as Retry-After says.",
            details={"cause": ErrorCode.INVALID_API_KEY},
            retry_after_seconds=decision.retry_after_seconds,
        )
        self.decision = decision


async def identify(call: Call, access: Access, headers: Mapping[bytes, bytes]) -> Caller:
    """Find out who calls and refuse whoever may not; the call knows its caller in both cases."""
    resources = call.resources
    key = headers.get(b"x-api-key")
    if not key:
        hint = " Send the key there, not in Authorization." if b"authorization" in headers else ""
        raise Refusal(ErrorCode.MISSING_API_KEY, f"The x-api-key header is missing.{hint}")
    caller = resources.keyring.find_known(key)
    if caller is None:
        # Junk never reaches the database; an unknown, revoked or ended key always does.
        if keys.read_form(key.decode("latin-1")) is not None:
            caller = await resources.keyring.find(key)
        if caller is None:
            raise await _wrong_key(resources, call.client_ip)
    call.caller = caller
    _check_environment(resources, caller, headers.get(b"host", b""))
    if caller.is_company_suspended:
        raise Refusal(ErrorCode.COMPANY_SUSPENDED)
    if caller.allowed_networks and not _is_allowed(caller, call.client_ip):
        raise Refusal(ErrorCode.IP_NOT_ALLOWED)
    if access is not Access.ANY_KEY and caller.key_type is not KeyType.SECRET:
        raise Refusal(
            ErrorCode.KEY_TYPE_NOT_ALLOWED,
            "A checkout key (ck_) is for checkout sessions only; use a secret key (sk_).",
        )
    return caller


async def _wrong_key(resources: Resources, client_ip: str) -> Refusal:
    decision = await resources.public_limiter.admit(
        Window(
            company_id=0,
            key_id=address_block(client_ip),
            group=PublicLimit.WRONG_KEYS,
            limit=resources.public_limits[PublicLimit.WRONG_KEYS],
            seconds=WRONG_KEYS_WINDOW_SECONDS,
        )
    )
    return Refusal(ErrorCode.INVALID_API_KEY) if decision.admitted else TooManyWrongKeys(decision)


def address_block(ip: str) -> str:
    """What counts as one client: an IPv4 address, or the /64 that an IPv6 address is in."""
    address = ip_address(ip)
    if address.version == 6:
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return f"{int(address) >> 64:x}/64"
    return ip


def _check_environment(resources: Resources, caller: Caller, host_header: bytes) -> None:
    if not resources.environment_hosts:
        return
    host = host_header.decode("latin-1").lower()
    hosts = resources.environment_hosts
    environment = hosts.get(host) or hosts.get(host.rpartition(":")[0])
    if environment is not None and environment is not caller.environment:
        other = "live" if environment is Environment.LIVE else "sandbox"
        raise Refusal(
            ErrorCode.WRONG_ENVIRONMENT,
            f"This is the {other} address; the API key is a {caller.environment} key.",
        )


def _is_allowed(caller: Caller, client_ip: str) -> bool:
    address = ip_address(client_ip)
    if address.version == 6 and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in caller.allowed_networks)
