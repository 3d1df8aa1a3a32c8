"""The service on real sockets."""

import httpx


async def test_a_server_answers_over_a_socket(server: str) -> None:
    async with httpx.AsyncClient(base_url=server, timeout=30) as http:
        answer = await http.get("/api/v1/jobs")

    assert answer.json() == {"jobs": [], "after": None}
