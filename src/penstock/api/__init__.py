"""A client for the HTTP API, for programs that cannot reach the database.

from penstock.api import Api

api = Api("https://queue.example.org", key="pk_…")
job = api.enqueue("shop.send_mail", {"to": "ada@example.org"})
api.wait(job, timeout=30)
"""

from penstock.wording import how_to_install

try:
    from penstock.api.client import Api, AsyncApi
except ModuleNotFoundError as error:
    if error.name != "httpx":
        raise
    raise ModuleNotFoundError(
        f"The client of the API needs httpx: {how_to_install('client')}.", name="httpx"
    ) from error
from penstock.api.live import Live, New
from penstock.groups.answers import Acted

__all__ = ["Acted", "Api", "AsyncApi", "Live", "New"]
