from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("codebase", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="package",
            name="scanned_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AlterField(
            model_name="module",
            name="modified",
            field=models.FloatField(editable=False, null=True),
        ),
    ]
