"""The code by which a member proves, once more, who is at the browser."""

from vintem.dashboard.visit import Visit
from vintem.members import service as members


async def proof_errors(visit: Visit, code: str) -> dict[str, str]:
    """Hold a code against the member's authenticator and use it up; what to say if it is wrong."""
    if not visit.member.has_totp:
        return {"": "Ative antes a verificação em duas etapas em Segurança."}
    is_proved = await members.prove(
        visit.resources.database, visit.resources.sealer, visit.member, code, now=visit.call.now
    )
    return {} if is_proved else {"code": "Código errado ou já usado. Espere o próximo e tente."}
