package kerberos

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// keytabBeginning is an empty keytab of the file format's second version, the only one in use.
var keytabBeginning = []byte{5, 2}

var errKeytab = errors.New("it is no readable keytab")

// keytabEntry is one key of a keytab.
type keytabEntry struct {
	principal string // name@REALM
	kvno      int
	keyBytes  int
}

// checkKeytab reads a keytab and returns the version of its newest key. It fails if the keytab cannot
// be read, has no key, or has a key of another principal.
func checkKeytab(keytab []byte, principal string) (int, error) {
	entries, err := parseKeytab(keytab)
	if err != nil {
		return 0, err
	}
	if len(entries) == 0 {
		return 0, errors.New("it has no key")
	}
	newest := 0
	for _, entry := range entries {
		if entry.principal != principal || entry.keyBytes == 0 {
			return 0, fmt.Errorf("it has an entry of %s with %d bytes of key", entry.principal, entry.keyBytes)
		}
		newest = max(newest, entry.kvno)
	}
	return newest, nil
}

// parseKeytab reads the entries of a keytab. Numbers are big-endian. An entry begins with its length;
// a negative one is that of a hole.
func parseKeytab(keytab []byte) ([]keytabEntry, error) {
	if len(keytab) < len(keytabBeginning) || keytab[0] != keytabBeginning[0] || keytab[1] != keytabBeginning[1] {
		return nil, errKeytab
	}
	file := reader{rest: keytab[len(keytabBeginning):]}
	var entries []keytabEntry
	for len(file.rest) > 0 {
		length := int64(int32(file.number(4)))
		if length == 0 {
			break
		}
		body := file.take(max(length, -length))
		if file.failed {
			return nil, errKeytab
		}
		if length < 0 {
			continue
		}
		entry, ok := parseEntry(body)
		if !ok {
			return nil, errKeytab
		}
		entries = append(entries, entry)
	}
	if file.failed {
		return nil, errKeytab
	}
	return entries, nil
}

func parseEntry(body []byte) (keytabEntry, bool) {
	r := reader{rest: body}
	components := make([]string, 0, 2)
	count := r.number(2)
	realm := r.text()
	for range count {
		components = append(components, r.text())
		if r.failed {
			return keytabEntry{}, false
		}
	}
	r.take(4) // type of the name
	r.take(4) // time
	kvno := r.number(1)
	r.take(2) // encryption type
	key := r.take(int64(r.number(2)))
	if r.failed {
		return keytabEntry{}, false
	}
	// Later writers add the version in full, because one byte is soon used up.
	if len(r.rest) >= 4 {
		if full := r.number(4); full != 0 {
			kvno = full
		}
	}
	return keytabEntry{principal: strings.Join(components, "/") + "@" + realm, kvno: int(kvno), keyBytes: len(key)}, true
}

// reader takes a byte string apart. Once something is missing it has failed and gives zeros.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) take(n int64) []byte {
	if r.failed || n > int64(len(r.rest)) {
		r.failed = true
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

// number reads an unsigned number of 1, 2 or 4 bytes.
func (r *reader) number(size int64) uint32 {
	var padded [4]byte
	copy(padded[4-size:], r.take(size))
	return binary.BigEndian.Uint32(padded[:])
}

func (r *reader) text() string { return string(r.take(int64(r.number(2)))) }
