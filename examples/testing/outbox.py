"""A mailer for tests: it keeps what it is given."""


class Outbox:
    def __init__(self) -> None:
        self.mails: dict[str, str] = {}
        self.calls = 0

    async def send(self, to: str, text: str, *, key: str) -> None:
        self.calls += 1
        self.mails[key] = f"{to}: {text}"

    def clear(self) -> None:
        self.mails.clear()
        self.calls = 0


outbox = Outbox()
