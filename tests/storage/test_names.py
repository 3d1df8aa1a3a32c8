import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.storage.names import belongs_to, folder_of, object_name, tenant_of

DIGEST = bytes(range(32))
CONTENT = DIGEST.hex()

tenants = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def test_a_name_is_the_tenant_two_folders_and_the_content() -> None:
    assert object_name("acme", DIGEST) == f"acme/00/01/{CONTENT}"


@pytest.mark.parametrize(
    ("tenant", "folder"),
    [
        ("..", "_2e_2e"),
        ("a/b", "a_2fb"),
        ("Acme", "_41cme"),
        ("a_b", "a_5fb"),
        ("#1", "_231"),
        ("é", "_c3_a9"),
    ],
)
def test_unsafe_characters_of_a_tenant_are_written_in_hex(tenant: str, folder: str) -> None:
    assert folder_of(tenant) == folder


@settings(deadline=None)
@given(tenants)
def test_every_tenant_has_a_folder_that_any_storage_takes(tenant: str) -> None:
    assert re.fullmatch(r"[a-z0-9_-]{1,100}", folder_of(tenant))
    assert belongs_to(object_name(tenant, DIGEST), tenant)


@settings(deadline=None)
@given(tenants, tenants)
def test_no_two_tenants_share_a_folder(one: str, other: str) -> None:
    assert (folder_of(one) == folder_of(other)) == (one == other)
    assert belongs_to(object_name(one, DIGEST), other) == (one == other)


@settings(deadline=None)
@given(tenants)
def test_folder_tells_its_tenant_unless_the_name_is_long(tenant: str) -> None:
    assert tenant_of(folder_of(tenant)) in (tenant, None)
    assert tenant_of(folder_of(tenant)) == tenant or len(tenant.encode()) > 33


@pytest.mark.parametrize("folder", ["", "Acme", "a_", "_ff", "_61", folder_of("x" * 300)])
def test_what_is_no_tenants_folder_tells_none(folder: str) -> None:
    assert tenant_of(folder) is None


def test_a_long_tenant_has_a_folder_of_its_own_too() -> None:
    folders = {folder_of("x" * length) for length in range(1, 300)}
    assert len(folders) == 299


@pytest.mark.parametrize("name", ["acme/../other/x", f"acme/00/01/{CONTENT}/x", "acme/", ""])
def test_what_the_server_has_not_made_belongs_to_nobody(name: str) -> None:
    assert not belongs_to(name, "acme")


def test_empty_tenant_and_short_digest_are_refused() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        folder_of("")
    with pytest.raises(ValueError, match="32 bytes, not 16"):
        object_name("acme", bytes(16))
