-- The outcome of the last audit, one row with id 1. checked_at is NULL until an audit has come to
-- its end; findings is a JSON list of the first ones, counts a JSON object of how many there are of
-- each kind.

-- +goose Up
CREATE TABLE IF NOT EXISTS config_server_audit (
    id         INT        NOT NULL PRIMARY KEY,
    checked_at DATETIME   NULL,
    findings   LONGTEXT   NOT NULL,
    counts     TEXT       NOT NULL,
    error      TEXT       NOT NULL
);

INSERT OR IGNORE INTO config_server_audit (id, checked_at, findings, counts, error) VALUES (1, NULL, '[]', '{}', '');
