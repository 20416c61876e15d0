#!/bin/sh
# Grafana's own user, who reads and cannot write: whoever sees a dashboard can send SQL through it.
# PostgreSQL's image runs this once, when the volume is new.
set -eu
psql --set=ON_ERROR_STOP=1 --set=password="$GRAFANA_READER_PASSWORD" \
  --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" <<'SQL'
CREATE ROLE grafana_reader LOGIN PASSWORD :'password';
GRANT pg_read_all_data TO grafana_reader;
ALTER ROLE grafana_reader SET default_transaction_read_only = on;
ALTER ROLE grafana_reader SET statement_timeout = '30s';
SQL
