// Package api holds the description of the service's HTTP API, embedded as it is written.
package api

import (
	_ "embed"
	"fmt"

	"sigs.k8s.io/yaml"
)

//go:embed openapi.yaml
var description []byte

// YAML is the description as it is written by hand: OpenAPI 3.0.3.
func YAML() []byte { return append([]byte(nil), description...) }

// JSON is the description as JSON. The error tells where the YAML is broken.
func JSON() ([]byte, error) {
	converted, err := yaml.YAMLToJSON(description)
	if err != nil {
		return nil, fmt.Errorf("read the API description: %w", err)
	}
	return converted, nil
}
