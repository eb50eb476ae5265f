package locks

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// Names lists the locks that have a file, which are those that are held and those whose holder was
// killed. Very long names, which their files do not spell out, are left out.
func (l *Local) Names() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(l.dir, "*.lock"))
	if err != nil {
		return nil, fmt.Errorf("list lock files: %w", err)
	}
	var names []string
	for _, file := range files {
		escaped := strings.TrimSuffix(filepath.Base(file), ".lock")
		if len(escaped) >= maxFileName {
			continue
		}
		if name, err := url.QueryUnescape(escaped); err == nil {
			names = append(names, name)
		}
	}
	return names, nil
}
