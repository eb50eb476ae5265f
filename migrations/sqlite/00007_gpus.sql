-- The GPU device files that workspaces were given, one row an index. alone is 1 of an index that nobody
-- may share and NULL otherwise: keys hold NULLs apart, so that the second key lets only those collide.

-- +goose Up
CREATE TABLE IF NOT EXISTS config_server_gpus (
    id         INTEGER      PRIMARY KEY AUTOINCREMENT,
    username   VARCHAR(255) NOT NULL,
    pod_name   VARCHAR(255) NOT NULL,
    node_name  VARCHAR(255) NOT NULL,
    gpu_index  INTEGER      NOT NULL,
    alone      INTEGER      NULL,
    created_at DATETIME     NOT NULL DEFAULT CURRENT_TIMESTAMP,
    UNIQUE (pod_name, gpu_index),
    UNIQUE (node_name, gpu_index, alone)
);
