-- The GPU device files that workspaces were given, one row an index. alone is 1 of an index that nobody
-- may share and NULL otherwise: keys hold NULLs apart, so that the second key lets only those collide.

-- +goose Up
CREATE TABLE IF NOT EXISTS config_server_gpus (
    id         BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    username   VARCHAR(255) NOT NULL,
    pod_name   VARCHAR(255) NOT NULL,
    node_name  VARCHAR(255) NOT NULL,
    gpu_index  INT          NOT NULL,
    alone      TINYINT      NULL,
    created_at DATETIME     NOT NULL DEFAULT CURRENT_TIMESTAMP,
    UNIQUE KEY config_server_gpus_pod (pod_name, gpu_index),
    UNIQUE KEY config_server_gpus_alone (node_name, gpu_index, alone)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;

INSERT IGNORE INTO config_server_mutexes (name) VALUES ('gpus');
