package replay

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// eightHex stands for eight hexadecimal digits in recorded text.
const eightHex = "<8 hex>"

// Differences compares two decoded JSON values and returns one line for each difference, naming its
// place below path. In recorded text "<8 hex>" stands for eight hexadecimal digits.
func Differences(path string, want, got any) []string {
	switch want := want.(type) {
	case map[string]any:
		if got, ok := got.(map[string]any); ok {
			return objectDifferences(path, want, got)
		}
	case []any:
		if got, ok := got.([]any); ok {
			return listDifferences(path, want, got)
		}
	case string:
		if got, ok := got.(string); ok && matches(want, got) {
			return nil
		}
	}
	if reflect.DeepEqual(want, got) {
		return nil
	}
	return []string{fmt.Sprintf("%s is %#v, want %#v", place(path), got, want)}
}

func objectDifferences(path string, want, got map[string]any) []string {
	var differences []string
	for _, key := range slices.Sorted(maps.Keys(want)) {
		value, ok := got[key]
		if !ok {
			differences = append(differences, fmt.Sprintf("%s is missing, want %#v", place(path+"."+key), want[key]))
			continue
		}
		differences = append(differences, Differences(path+"."+key, want[key], value)...)
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[key]; !ok {
			differences = append(differences, fmt.Sprintf("%s is %#v, want none", place(path+"."+key), got[key]))
		}
	}
	return differences
}

func listDifferences(path string, want, got []any) []string {
	if len(want) != len(got) {
		return []string{fmt.Sprintf("%s has %d entries, want %d: %#v", place(path), len(got), len(want), got)}
	}
	var differences []string
	for i := range want {
		differences = append(differences, Differences(fmt.Sprintf("%s[%d]", path, i), want[i], got[i])...)
	}
	return differences
}

// matches tells whether text is the recorded one, digits aside.
func matches(recorded, text string) bool {
	if !strings.Contains(recorded, eightHex) {
		return recorded == text
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(recorded), regexp.QuoteMeta(eightHex), "[0-9a-f]{8}")
	return regexp.MustCompile("^(?:" + pattern + ")$").MatchString(text)
}

func place(path string) string {
	if path == "" {
		return "the answer"
	}
	return strings.TrimPrefix(path, ".")
}
