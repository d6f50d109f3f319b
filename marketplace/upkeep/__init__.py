"""What keeps an installation well: health, metrics, the doctor, backups, seals, rights of the database's role."""
