package adminbe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"config-server/internal/farm"
)

const (
	// maxGPUs is more than any node has; a larger number is a mistake, not a wish.
	maxGPUs = 64
	// maxImage is the longest image reference, in bytes, that is believed.
	maxImage = 512
	// maxName is the longest name of a GPU option (resource, '/' and label value) or PodTemplate, in bytes.
	maxName = 400
)

// errUnknownUser: admin_be says 404 inside an answer with status 200.
var errUnknownUser = errors.New("user is unknown")

type object map[string]json.RawMessage

// decode reads a user configuration. Odd forms are coerced where the meaning is clear, and refused
// with the name of the field where it is not; no error has a value out of the answer.
//
//   - A list that is absent or null is empty; entries of lists that are no object are passed over,
//     nodes without a name too.
//   - Numbers may be strings of digits and may have a fraction of zeros.
//   - A limit that is absent, null, empty or 0 is the default: the empty string.
//   - A num_gpu that is absent, null, empty or negative is 0.
//   - A gid that is no number is passed over, because unknown groups are left out anyway.
//   - A purpose that is absent, null or blank is farm.CustomPurpose.
//   - A gpu_option or pod_template that is absent, null or blank is none; white space around it goes.
func decode(body []byte) (farm.UserConfig, error) {
	var config farm.UserConfig
	if !json.Valid(body) {
		return config, errors.New("the answer is not JSON")
	}
	top, ok := asObject(body)
	if !ok {
		return config, errors.New("the answer is not an object")
	}
	if status, ok := asInteger(top["status"]); ok && status == 404 {
		return config, errUnknownUser
	}
	var err error
	if config.Image, err = image(top["image"]); err != nil {
		return farm.UserConfig{}, err
	}
	if config.GroupIDs, err = groupIDs(top); err != nil {
		return farm.UserConfig{}, err
	}
	if config.Nodes, err = nodes(top["gpu_nodes"]); err != nil {
		return farm.UserConfig{}, err
	}
	if config.Ports, err = ports(top["additional_ports"]); err != nil {
		return farm.UserConfig{}, err
	}
	if config.GPUOption, err = name("gpu_option", top["gpu_option"]); err != nil {
		return farm.UserConfig{}, err
	}
	if config.PodTemplate, err = name("pod_template", top["pod_template"]); err != nil {
		return farm.UserConfig{}, err
	}
	return config, nil
}

// name reads the optional name of a GPU option or a PodTemplate. Whether there is such a thing is
// found out later.
func name(field string, raw json.RawMessage) (string, error) {
	if isNothing(raw) {
		return "", nil
	}
	text, ok := asString(raw)
	text = strings.TrimSpace(text)
	outside := func(r rune) bool { return r <= ' ' || r > '~' }
	if !ok || len(text) > maxName || strings.ContainsFunc(text, outside) {
		return "", fmt.Errorf("%s is no name", field)
	}
	return text, nil
}

func image(raw json.RawMessage) (string, error) {
	text, ok := asString(raw)
	text = strings.TrimSpace(text)
	if !ok || text == "" {
		return "", errors.New("image is missing")
	}
	outside := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(text) > maxImage || strings.ContainsFunc(text, outside) {
		return "", errors.New("image is no image name")
	}
	return text, nil
}

// groupIDs collects groups[].gid, or the older gid of the whole if there is none.
func groupIDs(top object) ([]farm.ID, error) {
	entries, err := asList("groups", top["groups"])
	if err != nil {
		return nil, err
	}
	var ids []farm.ID
	for _, entry := range entries {
		if group, ok := asObject(entry); ok {
			ids = appendIDs(ids, group["gid"])
		}
	}
	if len(ids) == 0 {
		ids = appendIDs(ids, top["gid"])
	}
	return ids, nil
}

// appendIDs adds a number, or each number of a list, once.
func appendIDs(ids []farm.ID, raw json.RawMessage) []farm.ID {
	values := []json.RawMessage{raw}
	if list, err := asList("gid", raw); err == nil {
		values = list
	}
	for _, value := range values {
		id, ok := asInteger(value)
		if !ok || id < 0 || id > math.MaxUint32 || slices.Contains(ids, farm.ID(id)) {
			continue
		}
		ids = append(ids, farm.ID(id))
	}
	return ids
}

func nodes(raw json.RawMessage) ([]farm.GPUNode, error) {
	entries, err := asList("gpu_nodes", raw)
	if err != nil {
		return nil, err
	}
	var found []farm.GPUNode
	for i, entry := range entries {
		fields, ok := asObject(entry)
		if !ok {
			continue
		}
		name, _ := asString(fields["node_name"])
		name = strings.TrimSpace(name)
		if name == "" {
			continue
		}
		node := farm.GPUNode{Name: farm.NodeName(name)}
		if node.NumGPU, err = numGPU(fields["num_gpu"]); err != nil {
			return nil, fmt.Errorf("gpu_nodes[%d].num_gpu %w", i, err)
		}
		if node.CPULimit, err = quantity(fields["cpu_limit"]); err != nil {
			return nil, fmt.Errorf("gpu_nodes[%d].cpu_limit %w", i, err)
		}
		if node.MemoryLimit, err = quantity(fields["memory_limit"]); err != nil {
			return nil, fmt.Errorf("gpu_nodes[%d].memory_limit %w", i, err)
		}
		found = append(found, node)
	}
	return found, nil
}

func numGPU(raw json.RawMessage) (int, error) {
	if isNothing(raw) {
		return 0, nil
	}
	n, ok := asInteger(raw)
	if !ok || n > maxGPUs {
		return 0, fmt.Errorf("must be a number of at most %d", maxGPUs)
	}
	return int(max(n, 0)), nil
}

// plainQuantity bounds what is given to the library: an exponent of many digits would keep it busy
// for minutes.
var plainQuantity = regexp.MustCompile(`^[0-9.]{1,20}([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`)

// quantity reads a Kubernetes quantity, as text or as a number.
func quantity(raw json.RawMessage) (string, error) {
	if isNothing(raw) {
		return "", nil
	}
	text, ok := asString(raw)
	if !ok {
		text = string(raw)
	}
	text = strings.TrimSpace(text)
	if !plainQuantity.MatchString(text) {
		return "", errors.New("must be a quantity")
	}
	parsed, err := resource.ParseQuantity(text)
	if err != nil {
		return "", errors.New("must be a quantity")
	}
	if parsed.IsZero() {
		return "", nil
	}
	return text, nil
}

func ports(raw json.RawMessage) ([]farm.PortWant, error) {
	entries, err := asList("additional_ports", raw)
	if err != nil {
		return nil, err
	}
	var wants []farm.PortWant
	for i, entry := range entries {
		fields, ok := asObject(entry)
		if !ok {
			continue
		}
		port, ok := asInteger(fields["internal_port"])
		if !ok || port < 1 || port > 65535 {
			return nil, fmt.Errorf("additional_ports[%d].internal_port must be a number in 1..65535", i)
		}
		wants = append(wants, farm.PortWant{Internal: int(port), Purpose: purpose(fields["usage_purpose"])})
	}
	return wants, nil
}

// purpose keeps any text as it is. A number or a truth value is taken for its text.
func purpose(raw json.RawMessage) string {
	text, ok := asString(raw)
	if !ok && len(raw) > 0 && !strings.ContainsRune("n{[", rune(raw[0])) {
		text = string(raw)
	}
	if strings.TrimSpace(text) == "" {
		return farm.CustomPurpose
	}
	return text
}

func asObject(raw json.RawMessage) (object, bool) {
	var value object
	err := json.Unmarshal(raw, &value)
	return value, err == nil && value != nil
}

// asList reads a list; absent and null are empty ones. The error names the field.
func asList(field string, raw json.RawMessage) ([]json.RawMessage, error) {
	if isNull(raw) {
		return nil, nil
	}
	var values []json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		return nil, fmt.Errorf("%s must be a list", field)
	}
	return values, nil
}

func asString(raw json.RawMessage) (string, bool) {
	var value *string
	err := json.Unmarshal(raw, &value)
	if err != nil || value == nil {
		return "", false
	}
	return *value, true
}

// numeric is a string that stands for an integer.
var numeric = regexp.MustCompile(`^[+-]?[0-9]+(\.0*)?$`)

func asInteger(raw json.RawMessage) (int64, bool) {
	text := string(bytes.TrimSpace(raw))
	if quoted, ok := asString(raw); ok {
		text = strings.TrimSpace(quoted)
		if !numeric.MatchString(text) {
			return 0, false
		}
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	// 22.0 and 2.2e1 are integers too. Beyond 2^53 a float is no longer exact.
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || string(bytes.TrimSpace(raw)) == "null"
}

// isNothing reports whether a value is absent, null or a blank string.
func isNothing(raw json.RawMessage) bool {
	if isNull(raw) {
		return true
	}
	text, ok := asString(raw)
	return ok && strings.TrimSpace(text) == ""
}
