from penstock.integrations.django.tasks import PenstockBackend


class Loud(PenstockBackend):
    """A backend that a project makes of Penstock's."""
