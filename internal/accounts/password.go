package accounts

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"unicode/utf8"

	"github.com/GehirnInc/crypt/sha512_crypt"

	"config-server/internal/farm"
)

// maxPassword is what PAM takes at most, in bytes. The hash's cost grows with the length, so there
// has to be a limit.
const maxPassword = 512

// CheckPassword tells whether a decoded password can be taken: UTF-8, not empty, at most 512 bytes,
// without NUL and line breaks. It returns nil or the *farm.Error for the caller, which never has
// any of the password in it.
func CheckPassword(password []byte) error {
	if len(password) == 0 || len(password) > maxPassword || !utf8.Valid(password) || bytes.ContainsAny(password, "\x00\r\n") {
		return farm.Errorf(farm.Invalid, "invalid passwd_base64")
	}
	return nil
}

// hashPassword is the SHA-512 crypt hash with a random salt, as shadow has it.
func hashPassword(password []byte) (string, error) {
	const alphabet = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	salt := make([]byte, 16)
	if _, err := rand.Read(salt); err != nil {
		return "", fmt.Errorf("choose a salt: %w", err)
	}
	for i := range salt {
		salt[i] = alphabet[salt[i]%64]
	}
	return crypt(password, string(salt))
}

// crypt is the one place that knows the library.
func crypt(password []byte, salt string) (string, error) {
	hash, err := sha512_crypt.New().Generate(password, []byte("$6$"+salt))
	if err != nil {
		return "", fmt.Errorf("hash the password: %w", err)
	}
	return hash, nil
}
