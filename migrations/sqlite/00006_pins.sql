-- Images that are held to a digest, one row each, by the name in its shortest form.

-- +goose Up
CREATE TABLE IF NOT EXISTS config_server_pins (
    image      VARCHAR(400) NOT NULL PRIMARY KEY,
    digest     VARCHAR(255) NOT NULL,
    pinned_at  DATETIME     NOT NULL,
    request_id VARCHAR(128) NOT NULL
);
