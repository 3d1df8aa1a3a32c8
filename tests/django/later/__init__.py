"""Django's migrations for Penstock as they are once Penstock has a second one."""
