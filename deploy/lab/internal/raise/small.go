package raise

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"

	"config-server/deploy/lab/internal/daemon"
	"config-server/deploy/lab/internal/site"
)

// startMariaDB starts the database server, with the service's database and user.
func (l *Lab) startMariaDB(ctx context.Context) error {
	data, tmp := l.Site.Path("mariadb", "data"), l.Site.Path("mariadb", "tmp")
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return fmt.Errorf("start MariaDB: %w", err)
	}
	// The folder has its name once it is whole.
	if _, err := os.Stat(data); errors.Is(err, fs.ErrNotExist) {
		draft := data + ".draft"
		if err := os.RemoveAll(draft); err != nil {
			return fmt.Errorf("start MariaDB: %w", err)
		}
		if _, err := run(ctx, "mariadb-install-db", "--no-defaults", "--datadir="+draft, "--tmpdir="+tmp, "--user=root",
			"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=8M",
			"--innodb-flush-method=nosync", "--innodb-flush-log-at-trx-commit=0"); err != nil {
			return fmt.Errorf("make the data folder of MariaDB: %w", err)
		}
		if err := os.Rename(draft, data); err != nil {
			return fmt.Errorf("start MariaDB: %w", err)
		}
	}
	grants := "CREATE DATABASE IF NOT EXISTS " + site.Database + " CHARACTER SET utf8mb4;\n" +
		"GRANT ALL ON " + site.Database + ".* TO '" + site.DBUser + "'@'%' IDENTIFIED BY '" + l.Site.DBPassword + "';\n"
	if err := l.write(l.Site.Path("mariadb", "init.sql"), grants, 0o600); err != nil {
		return err
	}
	server, err := l.daemon(&daemon.Daemon{
		Name: "mariadb", Path: "/usr/sbin/mariadbd",
		Args: []string{
			"--no-defaults", "--datadir=" + data, "--tmpdir=" + tmp, "--user=root", "--bind-address=127.0.0.1",
			"--port=" + strconv.Itoa(l.Site.PortOf(site.MariaDB)), "--socket=" + l.Site.Path("mariadb", "sock"), "--pid-file=" + l.Site.Path("mariadb", "pid"),
			"--init-file=" + l.Site.Path("mariadb", "init.sql"), "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=8M",
			"--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync", "--skip-log-bin", "--skip-name-resolve", "--performance-schema=OFF",
		},
		Ready: func(ctx context.Context) error {
			db := OpenDatabase(l.Site)
			defer func() { _ = db.Close() }()
			return db.PingContext(ctx)
		},
	}, l.Site.Address(site.MariaDB), "tcp://"+l.Site.Address(site.MariaDB))
	if err != nil {
		return err
	}
	return l.start(ctx, server)
}

// OpenDatabase opens the service's database as its user.
func OpenDatabase(s *site.Site) *sql.DB {
	config := mysql.NewConfig()
	config.User, config.Passwd, config.DBName = site.DBUser, s.DBPassword, site.Database
	config.Net, config.Addr = "tcp", s.Address(site.MariaDB)
	config.ParseTime, config.Timeout = true, 5*time.Second
	// Probes of a server that is starting would fill the terminal otherwise.
	config.Logger = log.New(io.Discard, "", 0)
	connector, err := mysql.NewConnector(config)
	if err != nil {
		panic(fmt.Sprintf("lab: configuration of MariaDB: %v", err)) // only a fault of this package gets here
	}
	return sql.OpenDB(connector)
}

// startSmallParts starts what is ready at once.
func (l *Lab) startSmallParts(ctx context.Context) error {
	s := l.Site
	config := "global: {scrape_interval: 500ms, scrape_timeout: 500ms}\n" +
		"scrape_configs: [{job_name: dcgm, honor_labels: true, static_configs: [{targets: ['" + s.Address(site.Exporter) + "']}]}]\n"
	if err := l.write(s.Path("prometheus", "prometheus.yml"), config, 0o644); err != nil {
		return err
	}
	if err := os.MkdirAll(s.Path("redis"), 0o755); err != nil {
		return fmt.Errorf("start Redis: %w", err)
	}
	return l.startAll(ctx,
		described{&daemon.Daemon{
			Name: "redis", Path: "/usr/bin/redis-server",
			Args: []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(s.PortOf(site.Redis)), "--save", "", "--appendonly", "no", "--dir", s.Path("redis")},
		}, s.Address(site.Redis), "tcp://" + s.Address(site.Redis)},
		described{&daemon.Daemon{
			Name: "dcgm-exporter", Path: l.Program, Args: []string{"exporter", s.Address(site.Exporter), s.Path("loads.json")},
		}, s.URL(site.Exporter), s.URL(site.Exporter) + "/metrics"},
		described{&daemon.Daemon{
			Name: "prometheus", Path: "/usr/bin/prometheus",
			Args: []string{
				"--config.file=" + s.Path("prometheus", "prometheus.yml"), "--storage.tsdb.path=" + s.Path("prometheus", "data"),
				"--web.listen-address=" + s.Address(site.Prometheus), "--log.level=warn",
			},
		}, s.URL(site.Prometheus), s.URL(site.Prometheus) + "/-/ready"},
		described{&daemon.Daemon{
			Name: "admin_be", Path: l.Program, Args: []string{"admin-be", s.Address(site.AdminBE), s.Path("users.json")},
		}, s.URL(site.AdminBE), s.URL(site.AdminBE) + "/api/requests/config"},
	)
}
