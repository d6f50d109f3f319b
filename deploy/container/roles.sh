#!/bin/bash
# Two roles, as docs/operations.md has them: one owns and migrates, one serves. Run once, when the data are made.
set -euo pipefail
psql --set ON_ERROR_STOP=1 --username postgres \
  --set owner_password="$OWNER_PASSWORD" --set password="$DATABASE_PASSWORD" <<'SQL'
CREATE ROLE bourse_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE bourse LOGIN PASSWORD :'password';
CREATE DATABASE bourse OWNER bourse_owner;
SQL
