"""Who asked for something or decided it: people and keys by the names that members know."""

from collections.abc import Collection, Mapping

from vintem.companies import service as companies
from vintem.dashboard.money_words import ACTORS
from vintem.dashboard.visit import Visit
from vintem.kit.ids import Prefix
from vintem.members import service as members

OPERATOR = "operator:"


async def actor_names(visit: Visit, actors: Collection[str]) -> Mapping[str, str]:
    """Give each actor a name; one that nobody knows keeps its id."""
    database = visit.resources.database
    names = dict(ACTORS)
    people = {actor for actor in actors if actor.startswith(f"{Prefix.PERSON}_")}
    if people:
        team = await members.list_members(database, visit.member.company_id)
        names |= {member.person_id: member.name for member in team}
    for person_id in people - names.keys():
        # Somebody who has left the company.
        person = await members.find_person_by_id(database, person_id)
        if person is not None:
            names[person_id] = person.name
    if any(actor.startswith(f"{Prefix.API_KEY}_") for actor in actors):
        for key in await companies.list_keys(database, visit.member.company_public_id):
            label = f"{key.label} " if key.label else ""
            names[key.key_id] = f"Chave de API {label}…{key.last_four}"
    for actor in actors:
        if actor.startswith(OPERATOR):
            names[actor] = f"Operação da plataforma ({actor.removeprefix(OPERATOR)})"
    return {actor: names.get(actor, actor) for actor in actors}
