import django
from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from penstock.integrations.django import enqueue
from shop.jobs import send_receipt
from shop.models import Order


class OutOfStock(Exception):
    pass


@csrf_exempt  # A shop without sessions.
@require_POST
def order(request: HttpRequest) -> JsonResponse:
    try:
        return JsonResponse(place(request.POST["item"]), status=202)
    except OutOfStock:
        return JsonResponse({"error": "out of stock"}, status=409)


@transaction.atomic
def place(item: str) -> dict[str, object]:
    """The order, its receipt's job and its thanks: all of them or none."""
    order = Order.objects.create(item=item)
    job = enqueue(send_receipt, order.pk)
    if django.VERSION >= (6, 0):
        from shop.tasks import thank

        thank.enqueue(order.pk)
    if item == "dragon":
        raise OutOfStock
    return {"order": order.pk, "job": job.id}


def show(request: HttpRequest, pk: int) -> JsonResponse:
    order = get_object_or_404(Order, pk=pk)
    return JsonResponse({"receipt": order.receipt, "thanked": order.thanked})
