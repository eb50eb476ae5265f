package source

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"

	"config-server/internal/farm"
)

// setting is what the file says of one project.
type setting struct {
	Managers []string `json:"managers"` // login names
	Binding  struct {
		Nodes      []string `json:"nodes"`
		NodeGroups []string `json:"nodeGroups"`
	} `json:"binding"`
	Quota struct {
		Hard map[string]resource.Quantity `json:"hard"`
	} `json:"quota"`
}

// readSettings reads the file strictly: a field that is not known, or there twice, is a fault, as is an entry of a group that is no
// project. The error names every fault.
func readSettings(file string, names []string) (map[string]setting, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the settings of projects: %w", err)
	}
	var all map[string]setting
	strict, err := kjson.UnmarshalStrict(text, &all)
	if err != nil {
		return nil, fmt.Errorf("read the settings of projects %s: %w", file, err)
	}
	faults := slices.Clone(strict)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains(names, name) {
			faults = append(faults, fmt.Errorf("%q: PROJECT_GROUPS does not list it", name))
		}
		for _, fault := range all[name].faults() {
			faults = append(faults, fmt.Errorf("%q: %w", name, fault))
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("read the settings of projects %s: %w", file, errors.Join(faults...))
	}
	return all, nil
}

func (s setting) faults() []error {
	var faults []error
	for _, name := range s.Managers {
		if err := farm.CheckPossible(name); err != nil {
			faults = append(faults, fmt.Errorf("managers: %w", err))
		}
	}
	for field, names := range map[string][]string{"binding.nodes": s.Binding.Nodes, "binding.nodeGroups": s.Binding.NodeGroups} {
		for _, name := range names {
			for _, fault := range validation.IsDNS1123Subdomain(name) {
				faults = append(faults, fmt.Errorf("%s: %q: %s", field, name, fault))
			}
		}
	}
	for name, hard := range s.Quota.Hard {
		if hard.Sign() < 0 {
			faults = append(faults, fmt.Errorf("quota.hard: %s is below zero", name))
		}
	}
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return faults
}
