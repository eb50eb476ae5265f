-- +goose Up
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
);
