package httpapi

import (
	"encoding/json"
	"strconv"
	"unicode/utf16"

	"config-server/internal/farm"
)

// asID decodes a uid or gid: a JSON integer or a string of one, in decimal, with no sign but '-',
// no leading zeros, no fraction and no exponent. 1.0 and 1e3 are refused like 1.5: a caller that
// sends a float for a number of an account has a fault that must not be smoothed over. Whether the
// number may be used is not asked here.
func asID(raw json.RawMessage) (farm.ID, bool) {
	digits := string(raw)
	if text, ok := asText(raw); ok {
		digits = text
	}
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || strconv.FormatInt(number, 10) != digits {
		return 0, false
	}
	return farm.ID(number), true
}

// asRatio decodes a JSON number in [0,1). A string, a bool or a number outside is refused.
func asRatio(raw json.RawMessage) (float64, bool) {
	var ratio float64
	if json.Unmarshal(raw, &ratio) != nil || !(ratio >= 0 && ratio < 1) {
		return 0, false
	}
	return ratio, true
}

// hasLoneSurrogate looks for a \uD800..\uDFFF escape that is not part of a pair in a valid JSON string.
func hasLoneSurrogate(raw json.RawMessage) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		first, ok := unicodeEscape(raw[i:])
		if !ok {
			i++ // a short escape such as \n or \\
			continue
		}
		i += 5
		if !utf16.IsSurrogate(first) {
			continue
		}
		second, ok := unicodeEscape(raw[i+1:])
		if !ok || utf16.DecodeRune(first, second) == '\uFFFD' {
			return true
		}
		i += 6
	}
	return false
}

// unicodeEscape reads the escape, \u and four hexadecimal digits, that raw begins with.
func unicodeEscape(raw json.RawMessage) (rune, bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	return rune(unit), err == nil
}
