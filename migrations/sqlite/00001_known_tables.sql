-- The tables of production, for one replica without MySQL. AUTOINCREMENT keeps an id from being
-- given to a second row.

-- +goose Up
CREATE TABLE IF NOT EXISTS nodeport_allocations (
    id            INTEGER      PRIMARY KEY AUTOINCREMENT,
    username      VARCHAR(255) NOT NULL,
    pod_name      VARCHAR(255) NOT NULL,
    node_name     VARCHAR(255) NOT NULL,
    internal_port INTEGER      NOT NULL,
    node_port     INTEGER      NOT NULL UNIQUE,
    purpose       VARCHAR(255) NULL,
    created_at    DATETIME     NOT NULL DEFAULT CURRENT_TIMESTAMP
);

CREATE INDEX IF NOT EXISTS nodeport_allocations_pod_name ON nodeport_allocations (pod_name);

CREATE INDEX IF NOT EXISTS nodeport_allocations_username ON nodeport_allocations (username);

CREATE TABLE IF NOT EXISTS krb5_cleanup_pending (
    id        INTEGER     PRIMARY KEY AUTOINCREMENT,
    username  VARCHAR(64) NOT NULL,
    node_name VARCHAR(64) NOT NULL,
    failed_at DATETIME    NOT NULL DEFAULT CURRENT_TIMESTAMP,
    UNIQUE (username, node_name)
);
