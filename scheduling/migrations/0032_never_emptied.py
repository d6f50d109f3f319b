"""What is not changed and not deleted is not emptied at one go either."""

from django.db import migrations

from scheduling.models.guards import GUARDS

_NAMES = ("event_never_emptied", "award_never_emptied", "outage_never_emptied", "use_price_never_emptied")
_BACK = """
DROP TRIGGER use_price_never_emptied ON scheduling_useprice;
DROP TRIGGER outage_never_emptied ON scheduling_outage;
DROP TRIGGER award_never_emptied ON scheduling_award;
DROP TRIGGER event_never_emptied ON scheduling_event;
"""


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0031_least_and_step")]

    operations = [migrations.RunSQL(GUARDS.sql(*_NAMES), _BACK)]
