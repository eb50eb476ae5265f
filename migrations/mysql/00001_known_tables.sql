-- The two tables that production already has. Where they exist they stay as they are;
-- version 2, written in Go, adds the keys that a hand-made table may lack.

-- +goose Up
CREATE TABLE IF NOT EXISTS nodeport_allocations (
    id            INT          NOT NULL AUTO_INCREMENT PRIMARY KEY,
    username      VARCHAR(255) NOT NULL,
    pod_name      VARCHAR(255) NOT NULL,
    node_name     VARCHAR(255) NOT NULL,
    internal_port INT          NOT NULL,
    node_port     INT          NOT NULL,
    purpose       VARCHAR(255) NULL,
    created_at    DATETIME     NOT NULL DEFAULT CURRENT_TIMESTAMP,
    UNIQUE KEY nodeport_allocations_node_port (node_port),
    KEY nodeport_allocations_pod_name (pod_name),
    KEY nodeport_allocations_username (username)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

CREATE TABLE IF NOT EXISTS krb5_cleanup_pending (
    id        INT         NOT NULL AUTO_INCREMENT PRIMARY KEY,
    username  VARCHAR(64) NOT NULL,
    node_name VARCHAR(64) NOT NULL,
    failed_at DATETIME    NOT NULL DEFAULT CURRENT_TIMESTAMP,
    UNIQUE KEY krb5_cleanup_pending_username_node_name (username, node_name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
