-- What creates, deletes and migrations do and did, one row each, for people to read. Nothing is
-- recovered from it, so a row that is missing or old costs nobody anything.

-- +goose Up
CREATE TABLE IF NOT EXISTS config_server_progress (
    id            CHAR(36)      NOT NULL PRIMARY KEY,
    kind          VARCHAR(16)   NOT NULL,
    username      VARCHAR(255)  NOT NULL,
    pod_name      VARCHAR(255)  NOT NULL,
    node_name     VARCHAR(255)  NOT NULL,
    old_pod_name  VARCHAR(255)  NOT NULL,
    old_node_name VARCHAR(255)  NOT NULL,
    stage         VARCHAR(32)   NOT NULL,
    message       VARCHAR(1024) NOT NULL,
    code          VARCHAR(64)   NOT NULL,
    detail        TEXT          NOT NULL,
    steps         TEXT          NOT NULL,
    request_id    VARCHAR(128)  NOT NULL,
    instance      VARCHAR(255)  NOT NULL,
    started_at    DATETIME(3)   NOT NULL,
    updated_at    DATETIME(3)   NOT NULL,
    done          BOOLEAN       NOT NULL,
    KEY config_server_progress_user (username, started_at),
    KEY config_server_progress_started (started_at),
    KEY config_server_progress_done (done, updated_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
