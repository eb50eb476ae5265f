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
    started_at    DATETIME      NOT NULL,
    updated_at    DATETIME      NOT NULL,
    done          BOOLEAN       NOT NULL
);

CREATE INDEX IF NOT EXISTS config_server_progress_user ON config_server_progress (username, started_at);

CREATE INDEX IF NOT EXISTS config_server_progress_started ON config_server_progress (started_at);

CREATE INDEX IF NOT EXISTS config_server_progress_done ON config_server_progress (done, updated_at);
