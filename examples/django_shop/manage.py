"""A shop on Django whose receipts are jobs.

createdb shop                               PGDATABASE, PGHOST and so on name another one
python manage.py migrate                    the shop's tables, and Penstock's with them
python manage.py runserver
python manage.py penstock work              in another terminal
curl -d item=kettle localhost:8000/orders   then look: curl localhost:8000/orders/1
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
    execute_from_command_line(sys.argv)
