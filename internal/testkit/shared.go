package testkit

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
)

// SharedEnv names the environment variable with the path of the file that describes the parts which
// command parts started for a whole run.
const SharedEnv = "CONFIG_SERVER_TEST_PARTS"

// Set describes the parts that a whole test run shares. A nil part is not shared.
type Set struct {
	MariaDB *MariaDBServer `json:"mariadb,omitempty"`
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
