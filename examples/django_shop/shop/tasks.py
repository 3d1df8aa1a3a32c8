"""Tasks of django.tasks, from Django 6.0 on: the same workers run them."""

from django.tasks import task

from shop.models import Order


@task(queue_name="mail")
def thank(order_id):
    return Order.objects.filter(pk=order_id).update(thanked=True)
