package config

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Seconds is a duration that is written as a number of seconds ("3.0") or with a unit ("60s", "2m").
type Seconds time.Duration

// UnmarshalText reads a number of seconds or a Go duration. Negative values are refused.
func (s *Seconds) UnmarshalText(text []byte) error {
	raw := strings.TrimSpace(string(text))
	d, err := time.ParseDuration(raw)
	if err != nil {
		number, numErr := strconv.ParseFloat(raw, 64)
		if numErr != nil || math.IsNaN(number) || math.Abs(number) > 1e9 {
			return fmt.Errorf("must be a number of seconds or a duration such as 60s")
		}
		d = time.Duration(number * float64(time.Second))
	}
	if d < 0 {
		return fmt.Errorf("must not be negative")
	}
	*s = Seconds(d)
	return nil
}

// String is the duration with its unit.
func (s Seconds) String() string { return time.Duration(s).String() }

// List is a comma-separated list; blanks around entries and empty entries are dropped.
type List []string

// UnmarshalText reads a comma-separated list.
func (l *List) UnmarshalText(text []byte) error {
	*l = nil
	for _, entry := range strings.Split(string(text), ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			*l = append(*l, entry)
		}
	}
	return nil
}

// String joins the list with commas.
func (l List) String() string { return strings.Join(l, ",") }

// Node is a farm node as FARM_NODES_JSON names it.
type Node struct {
	Name string `json:"name"`
	Host string `json:"host"`
	Port int    `json:"port"` // 0 = 22
}

// Nodes is a JSON list of Node.
type Nodes []Node

// UnmarshalText reads the JSON list. Every entry needs a name and a host.
func (n *Nodes) UnmarshalText(text []byte) error {
	if err := json.Unmarshal(text, (*[]Node)(n)); err != nil {
		return fmt.Errorf("must be a JSON list of {\"name\",\"host\",\"port\"}: %w", err)
	}
	for i := range *n {
		node := &(*n)[i]
		if node.Name == "" || node.Host == "" {
			return fmt.Errorf("entry %d needs name and host", i)
		}
		if node.Port == 0 {
			node.Port = 22
		}
		if node.Port < 1 || node.Port > 65535 {
			return fmt.Errorf("entry %d: port %d is not in 1..65535", i, node.Port)
		}
	}
	return nil
}
