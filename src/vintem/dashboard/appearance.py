"""How the buyer's page looks: tried out, published as a version, and brought back."""

from typing import Final

import msgspec
from msgspec.structs import replace

from vintem.api.call import Answer
from vintem.checkout import catalogue
from vintem.checkout.model import Appearance
from vintem.checkout.pictures import Rehost
from vintem.companies import service as companies
from vintem.dashboard.answers import forbidden, go, page
from vintem.dashboard.appearance_form import (
    MOODS,
    THEMES,
    AppearanceForm,
    Errors,
    changes,
    contrasts,
    form_of,
    read_appearance,
    told_appearance,
)
from vintem.dashboard.appearance_preview import Look, look_of, preview
from vintem.dashboard.forms import Form
from vintem.dashboard.offered import PICTURE_FAULT, copy_picture, in_production, rehost_of
from vintem.dashboard.page import Page, sent, shown
from vintem.dashboard.typed import whole_of
from vintem.dashboard.visit import Visit
from vintem.kit.errors import ErrorCode, Refusal
from vintem.media.model import Use
from vintem.members.model import Permission
from vintem.runtime.db import Connection
from vintem.trail import service as trail

VERSIONS_SHOWN_MAX: Final = 10

Kept = dict[str | None, str | None]
"""The names of our own copies of pictures, by the addresses that they came from."""


class Asked(msgspec.Struct, frozen=True):
    """Which versions are listed: those below one."""

    below: str = ""


async def show(visit: Visit) -> Answer:
    """Show how the pages look today, and how they looked."""
    newest = await _newest(visit)
    return await _form_page(visit, form_of(newest), newest, {})


async def try_out(visit: Visit) -> Answer:
    """Show how the pages would look; nothing is published."""
    form = await visit.form(AppearanceForm)
    typed, errors = read_appearance(form)
    # While somebody types, pictures are not fetched with every letter.
    is_typing = b"hx-request" in visit.call.headers
    rehost = None if is_typing else rehost_of(visit)
    drawn = typed if errors else await _drawn(typed, await _newest(visit), rehost, errors)
    return await _form_page(visit, form, drawn, errors, status=422 if errors else 200)


async def publish(visit: Visit) -> Answer:
    """Let new sessions look so; those that are open keep their version."""
    form = await visit.form(AppearanceForm)
    typed, errors = read_appearance(form)
    drawn = typed
    if not errors:
        drawn = await _drawn(typed, await _newest(visit), rehost_of(visit), errors)
    if errors:
        return await _form_page(visit, form, drawn, errors, status=422)
    await _publish(visit, drawn)
    return go(visit.href("/appearance", said="appearance-published"))


async def show_frame(visit: Visit) -> Answer:
    """Show the buyer's page inside the form's."""
    return preview(visit.call, visit.asked(Look), visit.environment)


async def show_version(visit: Visit) -> Answer:
    """Show a version, and what would change if it came back."""
    newest, version = await _newest(visit), await _find(visit)
    return page(
        visit,
        "appearance_version.html",
        title=f"Versão {version.version}",
        shows_frames=True,
        version=version,
        newest=newest,
        changes=changes(newest, version),
        contrasts=contrasts(version),
        look=visit.href("/appearance/frame", **look_of(version, "")),
    )


async def bring_back(visit: Visit) -> Answer:
    """Publish a version again, as the newest."""
    await visit.form(Form)
    await _publish(visit, await _find(visit))
    return go(visit.href("/appearance", said="appearance-published"))


async def ask_copy(visit: Visit) -> Answer:
    """Ask whether production shall look as test does."""
    if in_production(visit, Permission.APPEARANCE) is None:
        return forbidden(visit)
    newest = await _published(visit)
    return page(
        visit,
        "copy.html",
        title="Copiar para produção",
        what=f"a aparência, versão {newest.version},",
        back=visit.href("/appearance"),
        form_action=visit.href("/appearance/copy"),
        notes=("Ela é publicada em produção como uma versão nova. A de hoje fica na lista.",),
        errors={},
    )


async def copy(visit: Visit) -> Answer:
    """Let production look as test does."""
    await visit.form(Form)
    live = in_production(visit, Permission.APPEARANCE)
    if live is None:
        return forbidden(visit)
    await _publish(live, await _published(visit), copies_pictures=True)
    return go(live.href("/appearance", said="appearance-copied"))


async def _publish(visit: Visit, wanted: Appearance, *, copies_pictures: bool = False) -> None:
    async def save(block: Connection) -> None:
        before = await catalogue.find_appearance(block, visit.scope)
        if before is not None and replace(wanted, version=before.version) == before:
            # It looks so already: whoever sends the form twice publishes once.
            return
        if copies_pictures:
            banners = [banner.image_media for banner in wanted.banners]
            for name in (wanted.logo_media, *banners):
                if name is not None:
                    await copy_picture(block, visit, name)
        after = await catalogue.publish_appearance(block, visit.scope, wanted, now=visit.call.now)
        act = visit.act(
            "appearance.published",
            "appearance",
            str(after.version),
            before=None if before is None else told_appearance(before),
            after=told_appearance(after),
        )
        await trail.record(block, act)

    await visit.resources.database.atomically(save)


async def _drawn(
    typed: Appearance, known: Appearance, rehost: Rehost | None, errors: Errors
) -> Appearance:
    """Fetch the pictures that we do not have; without a way to, they are left out."""
    logos: Kept = {known.logo_url: known.logo_media}
    banners: Kept = {banner.image_url: banner.image_media for banner in known.banners}

    async def media_of(url: str, kept: Kept, use: Use, field: str) -> str | None:
        name = kept.get(url)
        if name is not None or rehost is None:
            return name
        try:
            return (await rehost(url, use)).name
        except Refusal as refusal:
            if refusal.code is not ErrorCode.INVALID_URL:
                raise
            errors[field] = PICTURE_FAULT
            return None

    logo = None
    if typed.logo_url is not None:
        logo = await media_of(typed.logo_url, logos, Use.LOGO, "logo_url")
    drawn = [
        replace(
            banner,
            image_media=await media_of(
                banner.image_url, banners, Use.BANNER, f"banner{banner.sort_order}_image"
            ),
        )
        for banner in typed.banners
    ]
    return replace(typed, logo_media=logo, banners=tuple(drawn))


async def _form_page(
    visit: Visit, form: AppearanceForm, looks: Appearance, errors: Errors, *, status: int = 200
) -> Answer:
    asked, database = visit.asked(Asked), visit.resources.database
    found = await catalogue.list_appearances(
        database, visit.scope, below=whole_of(asked.below), rows_max=VERSIONS_SHOWN_MAX + 1
    )
    versions = [
        (at, version, changes(found[place + 1][1] if place + 1 < len(found) else None, version))
        for place, (at, version) in enumerate(found[:VERSIONS_SHOWN_MAX])
    ]
    last = versions[-1][1].version if len(found) > VERSIONS_SHOWN_MAX else None
    return page(
        visit,
        "appearance.html",
        title="Aparência",
        status=status,
        shows_frames=True,
        form=form,
        errors=errors,
        themes=THEMES,
        moods=MOODS,
        contrasts=() if errors else contrasts(looks),
        look="" if errors else visit.href("/appearance/frame", **look_of(looks, form.mood)),
        versions=versions,
        older="" if last is None else visit.href("/appearance", below=last),
        newer=visit.href("/appearance") if asked.below else "",
        may_copy=visit.is_test
        and bool(found)
        and in_production(visit, Permission.APPEARANCE) is not None,
    )


async def _newest(visit: Visit) -> Appearance:
    """How the pages look today; where nobody has said, as they do with the company's name."""
    database = visit.resources.database
    newest = await catalogue.find_appearance(database, visit.scope)
    if newest is not None:
        return newest
    storefront = await companies.get_storefront(database, visit.scope.company_id)
    name = storefront.display_name or visit.member.company_name
    return Appearance(version=0, display_name=name)


async def _published(visit: Visit) -> Appearance:
    newest = await catalogue.find_appearance(visit.resources.database, visit.scope)
    if newest is None:
        raise Refusal(ErrorCode.NOT_FOUND)
    return newest


async def _find(visit: Visit) -> Appearance:
    number = whole_of(visit.call.params["version"])
    found = (
        []
        if number is None
        else await catalogue.list_appearances(
            visit.resources.database, visit.scope, below=number + 1, rows_max=1
        )
    )
    if not found or found[0][1].version != number:
        raise Refusal(ErrorCode.NOT_FOUND)
    return found[0][1]


_VERSION: Final = "/appearance/versions/{version}"

PAGES: Final[tuple[Page, ...]] = (
    shown("/appearance", show, Permission.APPEARANCE, "Aparência"),
    sent("/appearance", publish, Permission.APPEARANCE, "Publicar uma aparência"),
    sent("/appearance/preview", try_out, Permission.APPEARANCE, "Experimentar uma aparência"),
    shown("/appearance/frame", show_frame, Permission.APPEARANCE, "A página de quem compra"),
    shown(_VERSION, show_version, Permission.APPEARANCE, "Uma versão da aparência"),
    sent(f"{_VERSION}/publish", bring_back, Permission.APPEARANCE, "Publicar uma versão de novo"),
    shown("/appearance/copy", ask_copy, Permission.APPEARANCE, "Copiar a aparência?"),
    sent("/appearance/copy", copy, Permission.APPEARANCE, "Copiar a aparência para produção"),
)
