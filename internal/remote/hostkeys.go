package remote

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// hostKeys reads a known_hosts file. The second result lists the algorithms of the keys that the
// file has for the address: a server with several keys would otherwise be free to show one that
// the file does not have, and the check would fail although the host is known.
func hostKeys(path, address string) (ssh.HostKeyCallback, []string, error) {
	callback, err := knownhosts.New(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read known hosts: %w", err)
	}
	// A key that nobody has makes the check list those that it would accept.
	nobodys, err := ssh.NewPublicKey(make(ed25519.PublicKey, ed25519.PublicKeySize))
	if err != nil {
		return nil, nil, fmt.Errorf("look up known hosts: %w", err)
	}
	var mismatch *knownhosts.KeyError
	if !errors.As(callback(address, &net.TCPAddr{IP: net.IPv4zero}, nobodys), &mismatch) {
		return callback, nil, nil
	}
	var algorithms []string
	seen := map[string]bool{}
	for _, known := range mismatch.Want {
		kind := known.Key.Type()
		if seen[kind] {
			continue
		}
		seen[kind] = true
		if kind == ssh.KeyAlgoRSA {
			algorithms = append(algorithms, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		algorithms = append(algorithms, kind)
	}
	return callback, algorithms, nil
}
