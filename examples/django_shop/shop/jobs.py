"""Jobs of Penstock's own: found by the project, since the file is called jobs.py."""

from penstock import Context
from penstock.integrations.django import app
from shop.models import Order


@app.task(queue="mail", max_attempts=10)
def send_receipt(ctx: Context, order_id: int) -> str:
    order = Order.objects.get(pk=order_id)
    order.receipt = f"receipt for a {order.item}, attempt {ctx.attempt}"
    order.save(update_fields=["receipt"])
    return order.receipt
