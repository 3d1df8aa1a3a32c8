"""Integrations of Penstock with Django and OpenTelemetry."""
