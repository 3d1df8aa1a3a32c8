"""Knowledge bases that are asked for once more."""

from typing import Any

import httpx

LAW: dict[str, Any] = {"name": "law", "language": "german", "chunking": {"size": 128}}


async def test_a_base_that_is_there_is_answered_as_it_is(http: httpx.AsyncClient) -> None:
    made = await http.post("/knowledge-bases", json=LAW)
    assert made.status_code == 201
    settings: dict[str, Any]
    for settings in ({}, LAW, {"chunking": {}, "embedding": {}}):
        again = await http.post("/knowledge-bases", json={"name": "law", **settings})
        assert (again.status_code, again.json()) == (200, made.json())


async def test_a_base_that_is_there_with_other_settings_is_a_conflict(
    http: httpx.AsyncClient,
) -> None:
    base = (await http.post("/knowledge-bases", json=LAW)).json()
    answer = await http.post("/knowledge-bases", json={"name": "law", "chunking": {"size": 64}})
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:penstock:name-taken")
    assert f"PATCH /knowledge-bases/{base['id']}" in answer.json()["detail"]
    [field] = answer.json()["fields"]
    assert field["field"] == "chunking"
    assert '"size":128' in field["problem"]

    answer = await http.post("/knowledge-bases", json={"name": "law", "language": "english"})
    assert answer.status_code == 409
    assert "A language cannot be changed" in answer.json()["detail"]

    # What a change has asked for is what counts, also while it is being built.
    await http.patch("/knowledge-bases/law", json={"chunking": {"size": 64}})
    again = await http.post("/knowledge-bases", json={"name": "law", "chunking": {"size": 64}})
    assert again.status_code == 200
