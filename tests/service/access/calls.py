"""What to ask each route of the service with. A route that is not here fails a test."""

from dataclasses import dataclass, field
from typing import Any

from penstock import Penstock, Workflow
from tests.fixtures.service import document

MARK = "s3cret"
API = "/api/v1"


@dataclass(frozen=True)
class Things:
    """Something of everything: `$job` and the like in a call stand for these."""

    names: dict[str, str]

    def fill(self, value: Any) -> Any:
        """A call's value with the things in their places."""
        if isinstance(value, str) and value.startswith("$"):
            return self.names[value[1:]]
        if isinstance(value, list):
            return [self.fill(each) for each in value]
        if isinstance(value, dict):
            return {name: self.fill(each) for name, each in value.items()}
        return value


async def make_things(app: Penstock, tenant: str) -> Things:
    """One of each, of a tenant; what is secret about them has the mark in it."""
    work = app.tasks.get("work").options(tenant=tenant, subject=MARK, delay=3600)
    fail = app.tasks.get("fail").options(tenant=tenant, queue=f"q-{tenant}")
    job = await app.enqueue(work, MARK)
    dead = [(await app.enqueue(fail, MARK)).id for _ in range(3)]
    batch = await app.open_batch(MARK, tenant=tenant)
    await batch.enqueue(work, MARK)
    flow = Workflow(MARK)
    flow.chain(work.prepare(MARK), work.prepare(MARK))
    started = await app.start_workflow(flow)
    await app.worker([f"q-{tenant}"]).drain()
    await app.send_event(MARK, MARK, tenant=tenant)
    schedule = f"nightly-{tenant}"
    nightly = app.tasks.get("work").options(tenant=tenant).prepare(MARK)
    await app.set_schedule(schedule, nightly, cron="0 3 * * *")
    await app.set_lane(f"q-{tenant}", tenant, weight=2)
    await app.set_limit(f"lane:q-{tenant}:{tenant}", slots=1)
    kept = [await app.enqueue(work, MARK) for _ in range(3)]
    names = {
        "tenant": tenant,
        "job": job.id,
        "other": kept[0].id,
        "third": kept[1].id,
        "blocked": list(started.jobs.values())[-1].id,
        "dead": dead[0],
        "purged": dead[1],
        "erased": dead[2],
        "batch": batch.id,
        "workflow": started.id,
        "queue": f"q-{tenant}",
        "lane": tenant,
        "limit": f"lane:q-{tenant}:{tenant}",
        "schedule": schedule,
    }
    return Things(names)


@dataclass(frozen=True)
class Call:
    """A request: what stands in the path, the query and the body; `noted` as what it is noted."""

    path: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    body: Any = None
    noted: str | None = None


def job(id: str = "$job", noted: str | None = None) -> Call:
    return Call({"id": id}, noted=noted)


SCHEDULE = {"name": "$schedule"}
LANE = Call({"queue": "$queue"}, {"lane": "$lane"})
NEW = {"task": "work", "args": {"text": "x"}, "options": {"tenant": "$tenant"}}

# In an order in which each finds what it needs.
CALLS: dict[tuple[str, str], Call] = {
    ("POST", "/jobs"): Call(body=NEW),
    ("GET", "/jobs"): Call(query={"tenant": "$tenant"}),
    ("GET", "/jobs/{id}"): job(),
    ("GET", "/jobs/{id}/why"): job(),
    ("POST", "/jobs/{id}/cancel"): job(noted="cancel"),
    ("POST", "/jobs/{id}/retry"): job(noted="retry"),
    ("DELETE", "/jobs/{id}"): job("$erased", "delete"),
    ("POST", "/jobs/{id}/unblock"): job("$blocked", "unblock"),
    ("POST", "/bulk/jobs"): Call(body={"jobs": [NEW]}),
    ("POST", "/bulk/states"): Call(body={"ids": ["$job", "$dead"]}),
    ("POST", "/bulk/actions"): Call(
        body={"action": "cancel", "ids": ["$other", "$third"]}, noted="cancel"
    ),
    ("GET", "/batches"): Call(query={"tenant": "$tenant"}),
    ("GET", "/batches/{id}"): job("$batch"),
    ("GET", "/batches/{id}/why"): job("$batch"),
    ("POST", "/batches/{id}/close"): job("$batch", "close_batch"),
    ("POST", "/batches/{id}/cancel"): job("$batch", "cancel_batch"),
    ("POST", "/batches/{id}/retry"): job("$batch"),
    ("GET", "/workflows"): Call(query={"tenant": "$tenant"}),
    ("GET", "/workflows/{id}"): job("$workflow"),
    ("GET", "/workflows/{id}/why"): job("$workflow"),
    ("POST", "/workflows/{id}/cancel"): job("$workflow", "cancel_workflow"),
    ("POST", "/workflows/{id}/retry"): job("$workflow", "retry_workflow"),
    ("GET", "/dead"): Call(query={"tenant": "$tenant"}),
    ("GET", "/dead/summary"): Call(query={"tenant": "$tenant"}),
    ("POST", "/dead/redrive"): Call(body={"ids": ["$dead"]}, noted="redrive"),
    ("POST", "/dead/purge"): Call(body={"ids": ["$purged"]}, noted="purge"),
    ("GET", "/schedules"): Call(),
    ("GET", "/schedule"): Call(query=SCHEDULE),
    ("GET", "/schedule/fires"): Call(query=SCHEDULE),
    ("PUT", "/schedule"): Call(query=SCHEDULE, body={"jitter": 5}, noted="set_schedule"),
    ("POST", "/schedule/pause"): Call(query=SCHEDULE, noted="pause_schedule"),
    ("POST", "/schedule/resume"): Call(query=SCHEDULE, noted="resume_schedule"),
    ("POST", "/schedule/run"): Call(query=SCHEDULE, noted="run_schedule"),
    ("POST", "/schedule/reset"): Call(query=SCHEDULE),
    ("DELETE", "/schedule"): Call(query=SCHEDULE, noted="remove_schedule"),
    ("GET", "/queues"): Call(),
    ("PATCH", "/queues/{queue}"): Call({"queue": "$queue"}, body={"paused": True}, noted="pause"),
    ("GET", "/queues/{queue}/lanes"): Call({"queue": "$queue"}),
    ("PATCH", "/queues/{queue}/lanes"): Call(
        LANE.path, LANE.query, body={"weight": 3}, noted="set_lane"
    ),
    ("DELETE", "/queues/{queue}/lanes"): Call(LANE.path, LANE.query, noted="remove_lane"),
    ("GET", "/queues/{queue}/lane-settings"): Call({"queue": "$queue"}),
    ("GET", "/limits"): Call(),
    ("PUT", "/limits"): Call(query={"key": "$limit"}, body={"slots": 5}, noted="set_limit"),
    ("DELETE", "/limits"): Call(query={"key": "$limit"}, noted="remove_limit"),
    ("GET", "/workers"): Call(),
    ("GET", "/overview"): Call(),
    ("POST", "/events"): Call(body={"name": "go", "tenant": "$tenant"}, noted="send_event"),
    ("POST", "/live/tickets"): Call(body={"subjects": ["job/1"]}),
    ("GET", "/live/{kind}/{id}"): Call({"kind": "job", "id": "$job"}),
    ("GET", "/health"): Call(),
    ("POST", "/login"): Call(body={"name": "nobody", "password": "x"}),
    ("POST", "/logout"): Call(),
    ("GET", "/me"): Call(),
    ("GET", "/keys"): Call(),
    ("POST", "/keys"): Call(body={"name": "new", "scopes": ["read"]}, noted="create_key"),
    ("POST", "/keys/{id}/rotate"): Call({"id": "$key"}, body={}, noted="rotate_key"),
    ("DELETE", "/keys/{id}"): Call({"id": "$key"}, noted="revoke_key"),
    ("GET", "/people"): Call(),
    ("POST", "/people"): Call(
        body={"name": "eve", "role": "viewer", "password": "a long password"}, noted="add_person"
    ),
    ("PATCH", "/people/{name}"): Call(
        {"name": "$person"}, body={"disabled": True}, noted="set_person"
    ),
    ("GET", "/audit"): Call(),
    ("GET", "livez"): Call(),
    ("GET", "readyz"): Call(),
    ("GET", "metrics"): Call(),
}
# Those that change nothing, or what is noted in another place: `requested_by`, the login itself.
UNNOTED = {
    ("POST", "/jobs"),
    ("POST", "/bulk/jobs"),
    ("POST", "/bulk/states"),
    ("POST", "/live/tickets"),
    ("POST", "/login"),
    ("POST", "/logout"),
    ("POST", "/batches/{id}/retry"),  # its jobs were cancelled, and none has failed
    ("POST", "/schedule/reset"),  # it is not from code
}


def routes() -> set[tuple[str, str]]:
    """Verb and path of every route that OpenAPI describes."""
    return {
        (verb.upper(), path.removeprefix(API) if path.startswith(API) else path.lstrip("/"))
        for path, verbs in document()["paths"].items()
        for verb in verbs
    }


def url_of(path: str, call: Call, things: Things) -> str:
    """The address of a call, with the things in it."""
    filled = path.format(**{name: things.fill(value) for name, value in call.path.items()})
    return f"{API}{filled}" if path.startswith("/") else f"/{path}"
