package testkit

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// SharedEnv names the environment variable with the path of the file that describes the parts which
// command parts started for a whole run.
const SharedEnv = "CONFIG_SERVER_TEST_PARTS"

// Set describes the parts that a whole test run shares. A nil part is not shared.
type Set struct {
	MariaDB *MariaDBServer    `json:"mariadb,omitempty"`
	Cluster *clusterAddresses `json:"cluster,omitempty"`
	// MariaDBTemplate is a fresh data folder, for servers that tests start for themselves.
	MariaDBTemplate string `json:"mariadb_template,omitempty"`
	File            string `json:"-"` // this description, for SharedEnv

	stop []func()
}

// StartSet starts the parts that are worth sharing, telling progress, and describes them in a file.
// Stop ends them; the death of this process does too.
func StartSet(progress func(format string, args ...any)) (*Set, error) {
	dir, err := processDir()
	if err != nil {
		return nil, err
	}
	set := &Set{File: filepath.Join(dir, "parts.json")}
	began := time.Now()
	steps := []struct {
		part  string
		start func(dir string) error
	}{
		{"MariaDB", set.startMariaDB},
		{"etcd, kube-apiserver and kwok", set.startCluster},
	}
	for i, step := range steps {
		progress("starting %s", step.part)
		partFolder, err := newPartDir(dir, "shared"+strconv.Itoa(i))
		if err == nil {
			err = step.start(partFolder)
		}
		if err != nil {
			set.Stop()
			return nil, err
		}
	}
	text, err := json.Marshal(set)
	if err == nil {
		// It has the admin token of the cluster.
		err = os.WriteFile(set.File, text, 0o600)
	}
	if err != nil {
		set.Stop()
		return nil, fmt.Errorf("describe the shared parts: %w", err)
	}
	progress("all parts run after %s", time.Since(began).Round(time.Millisecond))
	return set, nil
}

func (s *Set) startMariaDB(dir string) error {
	server, err := startMariaDB(dir)
	if err != nil {
		return err
	}
	s.MariaDB = server
	if s.MariaDBTemplate, err = mariaDBTemplate(); err != nil {
		return err
	}
	s.stop = append(s.stop, server.proc.stop)
	return nil
}

func (s *Set) startCluster(dir string) error {
	parts, err := startCluster(dir)
	if err != nil {
		return err
	}
	s.Cluster = &parts.addresses
	s.stop = append(s.stop, parts.stop)
	return nil
}

// Stop ends the parts, the last one first, and removes their files.
func (s *Set) Stop() {
	for _, stop := range slices.Backward(s.stop) {
		stop()
	}
	s.stop = nil
	_ = os.RemoveAll(filepath.Dir(s.File))
}

// loadedSet reads the description once.
var loadedSet = sync.OnceValues(func() (*Set, error) {
	path := os.Getenv(SharedEnv)
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the shared parts: %w", err)
	}
	set := new(Set)
	if err := json.Unmarshal(text, set); err != nil {
		return nil, fmt.Errorf("read the shared parts of %s: %w", path, err)
	}
	return set, nil
})

// sharedSet returns the parts of this run, or nil when this process has to start its own.
func sharedSet(t testing.TB) *Set {
	t.Helper()
	set, err := loadedSet()
	if err != nil {
		t.Fatal(err)
	}
	return set
}
