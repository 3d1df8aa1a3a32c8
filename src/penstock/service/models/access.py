"""What is asked about keys, people and logins."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictBool

from penstock.groups.keys import Role, Scope
from penstock.service.models.jobs import Closed
from penstock.service.problems import worded

KEY_NAME = worded(
    r"^[A-Za-z0-9][A-Za-z0-9_.@+-]{0,99}$",
    "at most 100 of the letters A to Z and a to z, digits, and _ . @ + -, with a letter or a digit "
    "first",
)
KEY_ID = worded(r"^[0-9a-z]{8,32}$", "a key's id: 8 to 32 digits and small letters")
PERSON = worded(
    r"^[A-Za-z0-9_.@+-]{1,100}$",
    "at most 100 of the letters A to Z and a to z, digits, and _ . @ + -",
)
PLAIN = worded(r"^[^\x00-\x1f\x7f]{1,200}$", "at most 200 characters, none of them for control")

KeyName = Annotated[str, Field(pattern=KEY_NAME, examples=["ci"])]
KeyId = Annotated[str, Field(pattern=KEY_ID, examples=["1f2e3d4c5b6a"])]
PersonName = Annotated[str, Field(pattern=PERSON, examples=["ada"])]
Password = Annotated[str, Field(min_length=10, max_length=1000)]
# A hundred years.
Life = Annotated[float, Field(strict=True, gt=0, le=3_155_760_000)]


class KeyBody(Closed):
    """A key to be made; `expires` is in how many seconds."""

    name: KeyName
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=5)]
    tenant: Annotated[str, Field(pattern=PLAIN)] | None = None
    expires: Life | None = None


class RotationBody(Closed):
    """For how many seconds the old key is good still, and in how many the new one expires."""

    overlap: Annotated[float, Field(strict=True, ge=0, le=315_360_000)] = 86_400
    expires: Life | None = None


class PersonBody(Closed):
    name: PersonName
    role: Role
    password: Password


class PersonChange(Closed):
    """What is to change; what is left out stays."""

    role: Role | None = None
    password: Password | None = None
    disabled: StrictBool | None = None


class LoginBody(Closed):
    name: Annotated[str, Field(pattern=PLAIN)]
    password: Annotated[str, Field(min_length=1, max_length=1000)]
