package accounts

import (
	"strings"
	"testing"
)

// The hashes are what openssl passwd -6 -salt gives for these passwords and salts.
func TestCryptAgainstOpenSSL(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ password, salt, want string }{
		{"Hello world!", "saltstring", "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1"},
		{"암호123", "0123456789abcdef", "$6$0123456789abcdef$yiHAoT9uVUFbxFYb6pfYbCTiOBICDqKVXmlw.Hfsj/0P95BAF3bzntROe66r9B8wuVt8B6YHRaJEpjxZe6FR80"},
		{"a", "./ABCDEFGHIJKLMN", "$6$./ABCDEFGHIJKLMN$7ecywBrhAr.HoF5tKgROinQb0UFDVfDUjdNWxMosinePTvRbg3kt939Sbzh2TXJrMUf4tsYen.6RHZMqbJhVV."},
	} {
		if got, err := crypt([]byte(test.password), test.salt); err != nil || got != test.want {
			t.Errorf("%q with %q: got %s, want %s (%v)", test.password, test.salt, got, test.want, err)
		}
	}
}

func TestHashesHaveSaltsOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 8 {
		hash, err := hashPassword([]byte("same"))
		if err != nil {
			t.Fatal(err)
		}
		salt := strings.Split(hash, "$")[2]
		if len(salt) != 16 || seen[salt] || strings.Contains(hash, "rounds") {
			t.Errorf("salt %q of %q", salt, hash)
		}
		seen[salt] = true
	}
}

func TestRefusedPasswordsAreNotRepeated(t *testing.T) {
	t.Parallel()
	err := CheckPassword([]byte("do-not-show\n"))
	if err == nil || strings.Contains(err.Error(), "do-not-show") {
		t.Errorf("got %v", err)
	}
	if err := CheckPassword([]byte("암호123 with spaces:and,more")); err != nil {
		t.Errorf("a good password is refused: %v", err)
	}
}
