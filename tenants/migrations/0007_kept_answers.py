"""A key is reserved, and its answer looked for, in one journey."""

from django.db import migrations

# Whether the key is ours until the transaction ends; and then the answer that is kept under it. The second statement
# sees what was committed before the lock was ours, which one statement for both would not.
FUNCTION = """
CREATE FUNCTION tenants_kept_answer(
    person bigint, said text, lock bigint,
    OUT ours boolean, OUT request_digest text, OUT status smallint, OUT body text, OUT location text
) LANGUAGE plpgsql AS $$
BEGIN
    ours := pg_try_advisory_xact_lock(lock);
    IF ours THEN
        SELECT kept.request_digest, kept.status, kept.body, kept.location
          INTO tenants_kept_answer.request_digest, tenants_kept_answer.status,
               tenants_kept_answer.body, tenants_kept_answer.location
          FROM tenants_keptanswer kept WHERE kept.user_id = person AND kept.key = said;
    END IF;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0006_join_requests")]

    operations = [migrations.RunSQL(FUNCTION, "DROP FUNCTION tenants_kept_answer")]
