"""The proof that is asked for before something that matters: the password, and perhaps a code."""

from typing import Final

from vintem.dashboard.forms import Form
from vintem.dashboard.visit import Visit
from vintem.members import entry
from vintem.members import service as members
from vintem.members.model import Verdict

_WRONG: Final = "A senha não confere."
_TOO_MANY: Final = "Foram tentativas demais. Espere 15 minutos e tente de novo."
_WRONG_CODE: Final = "O código não confere ou já foi usado. Espere o próximo e tente de novo."


class ProofForm(Form, frozen=True):
    """One's password and, where there is a second step, a code."""

    current: str = ""
    code: str = ""


async def proof_errors(visit: Visit, form: ProofForm) -> dict[str, str]:
    """Check the proof, or say what is wrong with it by the names of the fields."""
    database, sealer, now = visit.resources.database, visit.resources.sealer, visit.call.now
    verdict = await entry.is_own_password(database, sealer, visit.member, form.current, now=now)
    if verdict is not Verdict.RIGHT:
        return {"current": _WRONG if verdict is Verdict.WRONG else _TOO_MANY}
    if visit.member.has_totp:
        return await code_errors(visit, form.code)
    return {}


async def code_errors(visit: Visit, code: str) -> dict[str, str]:
    """Use a code up, or say that it is none."""
    is_right = await members.prove(
        visit.resources.database, visit.resources.sealer, visit.member, code, now=visit.call.now
    )
    return {} if is_right else {"code": _WRONG_CODE}
