-- Tables of this service alone.
-- config_server_mutexes has a row for each thing that is changed by one transaction at a time.
-- config_server_operations has a row for each create, delete and migrate that is under way.

-- +goose Up
CREATE TABLE IF NOT EXISTS config_server_mutexes (
    name VARCHAR(64) NOT NULL PRIMARY KEY
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

INSERT IGNORE INTO config_server_mutexes (name) VALUES ('nodeports');

CREATE TABLE IF NOT EXISTS config_server_operations (
    id            CHAR(36)     NOT NULL PRIMARY KEY,
    kind          VARCHAR(16)  NOT NULL,
    username      VARCHAR(255) NOT NULL,
    pod_name      VARCHAR(255) NOT NULL,
    node_name     VARCHAR(255) NOT NULL,
    old_pod_name  VARCHAR(255) NOT NULL,
    old_node_name VARCHAR(255) NOT NULL,
    stage         VARCHAR(64)  NOT NULL,
    instance      VARCHAR(255) NOT NULL,
    started_at    DATETIME     NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at    DATETIME     NOT NULL DEFAULT CURRENT_TIMESTAMP
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
