from django.db import models


class Bread(models.Model):
    name = models.CharField(max_length=50)
