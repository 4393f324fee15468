from __future__ import annotations

from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Entry",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("delivery", models.CharField(max_length=80)),
                ("source", models.CharField(max_length=40)),
                ("alias", models.CharField(max_length=100)),
                ("created", models.DateTimeField(db_default=Now())),
                ("jobs", models.PositiveIntegerField(default=1)),
                ("summary", models.CharField(max_length=200)),
                ("command", models.TextField()),
            ],
            options={
                "verbose_name": "outbox entry",
                "verbose_name_plural": "outbox entries",
                "default_permissions": (),
                "indexes": [
                    models.Index(fields=["alias", "id"], name="qless_outbox_alias")
                ],
            },
        ),
    ]
