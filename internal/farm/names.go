package farm

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// UserName is the login name of an account: the first field of a passwd(5) line.
type UserName string

// GroupName is the first field of a group(5) line.
type GroupName string

// PodName is the name of a workspace's pod: ailab-<user>-<8 hex>.
type PodName string

// NodeName is the name of a Kubernetes node.
type NodeName string

// Limits on names that come from Linux and from Kubernetes.
const (
	// PodPrefix begins the name of every workspace pod and of each of its Services.
	PodPrefix = "ailab-"
	// MaxPlainPurpose is the length up to which a purpose can stand in object names unchanged.
	MaxPlainPurpose = 15
	// MaxLabel is the length limit of a DNS label and of a Kubernetes label value.
	MaxLabel = 63
	// MaxRowText is the length, in characters, to which free text is cut in a database row.
	MaxRowText = 255
)

var (
	newName      = regexp.MustCompile(`\A[a-z_][a-z0-9_-]{0,31}\z`)
	commandable  = regexp.MustCompile(`\A[A-Za-z0-9_][A-Za-z0-9._-]*\z`)
	dnsLabel     = regexp.MustCompile(`\A[a-z0-9]([a-z0-9-]*[a-z0-9])?\z`)
	labelValue   = regexp.MustCompile(`\A[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\z`)
	plainPurpose = dnsLabel
)

// ErrBadName is returned, wrapped with the name and the rule, by every check of a name.
var ErrBadName = errors.New("bad name")

// CheckNew tells whether a user or group of this name may be made: ^[a-z_][a-z0-9_-]{0,31}$ over
// the whole string. It returns nil or an error that wraps ErrBadName.
func CheckNew(name string) error {
	if !newName.MatchString(name) {
		return fmt.Errorf("%w: %s must match ^[a-z_][a-z0-9_-]{0,31}$", ErrBadName, quote(name))
	}
	return nil
}

// CheckPossible tells whether a name can stand in the ledger at all. The original checked nothing,
// so student numbers and long names are there and stay usable; but a name with a separator, white
// space or a control character, or one that a path would misread, is impossible everywhere.
// It returns nil or an error that wraps ErrBadName.
func CheckPossible(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrBadName)
	case name == "." || name == "..":
		return fmt.Errorf("%w: %s is a path", ErrBadName, quote(name))
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: %s is not UTF-8", ErrBadName, quote(name))
	case len(name) > 255:
		return fmt.Errorf("%w: it is longer than 255 bytes", ErrBadName)
	}
	for _, r := range name {
		if strings.ContainsRune("/,:", r) || unicode.IsSpace(r) || unicode.IsControl(r) {
			return fmt.Errorf("%w: %s has a separator, white space or a control character", ErrBadName, quote(name))
		}
	}
	return nil
}

// IsNew reports whether the name keeps the rule for new names.
func IsNew(name string) bool { return newName.MatchString(name) }

// Commandable reports whether the name may be an argument of a command on the NAS, a farm node or
// kadmin: letters, digits, '.', '_' and '-', not beginning with '.' or '-'.
func (n UserName) Commandable() bool { return commandable.MatchString(string(n)) }

// ObjectPart is the name as it stands inside object names: '_' becomes '-', because a DNS label
// has none.
func (n UserName) ObjectPart() string { return strings.ReplaceAll(string(n), "_", "-") }

// CheckPod tells whether a user of this name can have a workspace: ailab-<name>-<8 hex> must be a
// DNS label and the name itself a label value. It returns nil or an error that wraps ErrBadName.
func (n UserName) CheckPod() error {
	if err := CheckPossible(string(n)); err != nil {
		return err
	}
	pod := PodPrefix + n.ObjectPart() + "-00000000"
	if len(pod) > MaxLabel || !dnsLabel.MatchString(pod) {
		return fmt.Errorf("%w: %s gives no valid pod name (a DNS label of at most %d characters)", ErrBadName, quote(string(n)), MaxLabel)
	}
	if len(n) > MaxLabel || !labelValue.MatchString(string(n)) {
		return fmt.Errorf("%w: %s is no valid label value (it must begin and end with a letter or digit)", ErrBadName, quote(string(n)))
	}
	return nil
}

// NewPodName is ailab-<user>-<suffix>. The suffix is eight hexadecimal digits.
func NewPodName(user UserName, suffix [4]byte) PodName {
	return PodName(PodPrefix + user.ObjectPart() + "-" + hex.EncodeToString(suffix[:]))
}

// CheckPodName tells whether a caller may name this pod: it begins with ailab- and is a DNS label.
func CheckPodName(name string) error {
	if !strings.HasPrefix(name, PodPrefix) || len(name) > MaxLabel || !dnsLabel.MatchString(name) {
		return fmt.Errorf("%w: %s is not the name of a workspace pod", ErrBadName, quote(name))
	}
	return nil
}

// SecretName is <prefix>-<user>. A name that cannot stand in an object name as it is gets eight
// hexadecimal digits of its SHA-256 behind it, so that a_b and a-b do not share a Secret.
func SecretName(prefix string, user UserName) string {
	part := strings.ToLower(user.ObjectPart())
	if part == string(user) {
		return prefix + "-" + part
	}
	return prefix + "-" + part + "-" + shortHash(string(user), 8)
}

// PurposeLabel is the form of a port's purpose that is valid in Service, port and label names. A
// plain purpose ([a-z0-9]([a-z0-9-]*[a-z0-9])?, at most 15 characters) is kept; any other text
// gives a readable beginning, as far as it has one, and a hash of the whole.
func PurposeLabel(purpose string) string {
	if len(purpose) <= MaxPlainPurpose && plainPurpose.MatchString(purpose) {
		return purpose
	}
	var b strings.Builder
	for _, r := range strings.ToLower(purpose) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() == 8 {
			break
		}
	}
	head := strings.Trim(b.String(), "-")
	if head == "" {
		head = "p"
	}
	return head + "-" + shortHash(purpose, 6)
}

// ServiceName is ailab-<user>-<purpose>-<nodePort>. Where that would be longer than a DNS label
// the middle is shortened and hashed; the node port keeps it unique.
func ServiceName(user UserName, purpose string, nodePort int) string {
	tail := "-" + strconv.Itoa(nodePort)
	middle := user.ObjectPart() + "-" + PurposeLabel(purpose)
	if room := MaxLabel - len(PodPrefix) - len(tail); len(middle) > room {
		middle = strings.TrimRight(middle[:room-9], "-") + "-" + shortHash(middle, 8)
	}
	return PodPrefix + middle + tail
}

// IsLabelValue reports whether text is a valid, non-empty Kubernetes label value.
func IsLabelValue(text string) bool { return len(text) <= MaxLabel && labelValue.MatchString(text) }

// CutText shortens free text to at most limit characters, never inside one.
func CutText(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit])
}

func shortHash(text string, digits int) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:digits]
}

// quote shows a hostile name in an error text without its control characters and bounded.
func quote(name string) string { return strconv.Quote(CutText(strings.ToValidUTF8(name, "?"), 64)) }
