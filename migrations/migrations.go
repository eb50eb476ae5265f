// Package migrations holds the SQL that makes and adopts the service's tables, one folder a dialect.
//
// Every statement is safe to repeat: MySQL commits after each DDL statement, so a migration that
// was cut off runs again from its beginning. Nothing here ever drops a table or a column, because
// nodeport_allocations and krb5_cleanup_pending were made by hand and have rows.
package migrations

import "embed"

// Files has the folders mysql and sqlite.
//
//go:embed mysql/*.sql sqlite/*.sql
var Files embed.FS
