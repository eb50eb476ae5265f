package kerberos

import (
	"encoding/binary"
	"strings"
	"testing"
)

// entryOf writes a keytab entry by hand.
func entryOf(kvno int, full bool, key, realm string, components ...string) []byte {
	counted := func(text string) []byte {
		return append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...)
	}
	body := binary.BigEndian.AppendUint16(nil, uint16(len(components)))
	body = append(body, counted(realm)...)
	for _, component := range components {
		body = append(body, counted(component)...)
	}
	body = append(body, 0, 0, 0, 1, 0, 0, 0, 0, byte(kvno), 0, 18)
	body = append(body, counted(key)...)
	if full {
		body = binary.BigEndian.AppendUint32(body, uint32(kvno))
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func keytabOf(entries ...[]byte) []byte {
	keytab := append([]byte{}, keytabBeginning...)
	for _, entry := range entries {
		keytab = append(keytab, entry...)
	}
	return keytab
}

func TestCheckKeytab(t *testing.T) {
	t.Parallel()
	kim := entryOf(3, true, "key", "FARM.TEST", "kim")
	for _, test := range []struct {
		name   string
		keytab []byte
		kvno   int
		err    string
	}{
		{"one key", keytabOf(kim), 3, ""},
		{"the newest counts", keytabOf(entryOf(2, true, "key", "FARM.TEST", "kim"), kim), 3, ""},
		{"a version in one byte", keytabOf(entryOf(4, false, "key", "FARM.TEST", "kim")), 4, ""},
		{"a version above one byte", keytabOf(entryOf(300, true, "key", "FARM.TEST", "kim")), 300, ""},
		{"a hole", keytabOf([]byte{255, 255, 255, 254, 9, 9}, kim), 3, ""},
		{"an end mark", keytabOf(kim, []byte{0, 0, 0, 0, 1, 2}), 3, ""},
		{"nothing", nil, 0, "no readable keytab"},
		{"no key", keytabOf(), 0, "no key"},
		{"the old format", append([]byte{5, 1}, kim...), 0, "no readable keytab"},
		{"cut", keytabOf(kim)[:20], 0, "no readable keytab"},
		{"cut in a length", append(keytabOf(kim), 0, 0), 0, "no readable keytab"},
		{"a length beyond the end", keytabOf([]byte{127, 255, 255, 255}), 0, "no readable keytab"},
		{"the smallest length", keytabOf([]byte{128, 0, 0, 0}), 0, "no readable keytab"},
		{"an entry that is too short for its parts", keytabOf([]byte{0, 0, 0, 2, 0, 9}), 0, "no readable keytab"},
		{"somebody else's", keytabOf(kim, entryOf(1, true, "key", "FARM.TEST", "lee")), 0, "lee@FARM.TEST"},
		{"another realm's", keytabOf(entryOf(1, true, "key", "OTHER", "kim")), 0, "kim@OTHER"},
		{"another instance's", keytabOf(entryOf(1, true, "key", "FARM.TEST", "kim", "admin")), 0, "kim/admin@FARM.TEST"},
		{"an empty key", keytabOf(entryOf(1, true, "", "FARM.TEST", "kim")), 0, "0 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			kvno, err := checkKeytab(test.keytab, "kim@FARM.TEST")
			if kvno != test.kvno || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("version %d, error %v; want %d, %q", kvno, err, test.kvno, test.err)
			}
		})
	}
}

func FuzzCheckKeytab(f *testing.F) {
	f.Add(keytabOf(entryOf(3, true, "key", "FARM.TEST", "kim")))
	f.Add(keytabOf([]byte{255, 255, 255, 254, 9, 9}))
	f.Fuzz(func(t *testing.T, keytab []byte) {
		kvno, err := checkKeytab(keytab, "kim@FARM.TEST")
		if err != nil && kvno != 0 {
			t.Errorf("version %d beside %v", kvno, err)
		}
	})
}
