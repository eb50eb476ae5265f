package raise

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// certificates of the cluster: one authority, the API server's own and the one with which it
// presents itself to kubelets, and the key that signs tokens of ServiceAccounts.
const (
	caFile, caKeyFile         = "ca.crt", "ca.key"
	serverFile, serverKeyFile = "server.crt", "server.key"
	clientFile, clientKeyFile = "kubelet-client.crt", "kubelet-client.key"
	tokenKeyFile              = "service-accounts.key"
)

func (l *Lab) kube(name string) string { return l.Site.Path("kube", name) }

// makeCertificates makes what is not there yet.
func (l *Lab) makeCertificates() error {
	if _, err := os.Stat(l.kube(tokenKeyFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	ca := &x509.Certificate{
		Subject: pkix.Name{CommonName: "lab"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	caKey, err := l.certificate(ca, nil, nil, caFile, caKeyFile)
	if err != nil {
		return err
	}
	server := &x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 214, 0, 1)},
		DNSNames: []string{"localhost", "kubernetes.default.svc"},
	}
	if _, err := l.certificate(server, ca, caKey, serverFile, serverKeyFile); err != nil {
		return err
	}
	client := &x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if _, err := l.certificate(client, ca, caKey, clientFile, clientKeyFile); err != nil {
		return err
	}
	// Last, as the sign that all are there.
	_, err = l.key(tokenKeyFile)
	return err
}

func (l *Lab) certificate(template, parent *x509.Certificate, parentKey crypto.Signer, file, keyFile string) (crypto.Signer, error) {
	key, err := l.key(keyFile)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, fmt.Errorf("make certificate %s: %w", file, err)
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().AddDate(1, 0, 0)
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, fmt.Errorf("make certificate %s: %w", file, err)
	}
	return key, l.write(l.kube(file), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), 0o644)
}

func (l *Lab) key(file string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key %s: %w", file, err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("make key %s: %w", file, err)
	}
	return key, l.write(l.kube(file), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})), 0o600)
}

// kubeconfig writes the file with which a party reaches the API server: by its token, or by the
// token in a file that may change.
func (l *Lab) kubeconfig(who, token, tokenFile, namespace string) error {
	user := "token: " + token
	if tokenFile != "" {
		user = "tokenFile: " + tokenFile
	}
	text := `apiVersion: v1
kind: Config
current-context: lab
clusters: [{name: lab, cluster: {server: "https://` + l.Site.Address(apiServerPart) + `", certificate-authority: ` + l.kube(caFile) + `}}]
users: [{name: "` + who + `", user: {` + user + `}}]
contexts: [{name: lab, context: {cluster: lab, user: "` + who + `", namespace: ` + namespace + `}}]
`
	return l.write(l.Site.Kubeconfig(who), text, 0o600)
}

// sshKey makes an ed25519 key pair in the folder of keys, if it is not there, and returns the public
// half.
func (l *Lab) sshKey(name string) (ssh.PublicKey, error) {
	path := l.Site.Path("keys", name)
	if text, err := os.ReadFile(path); err == nil {
		signer, err := ssh.ParsePrivateKey(text)
		if err != nil {
			return nil, fmt.Errorf("read ssh key %s: %w", name, err)
		}
		return signer.PublicKey(), nil
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make ssh key %s: %w", name, err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, fmt.Errorf("make ssh key %s: %w", name, err)
	}
	if err := l.write(path, string(pem.EncodeToMemory(block)), 0o600); err != nil {
		return nil, err
	}
	return ssh.NewPublicKey(public)
}

// knownHosts writes the host keys of servers on 127.0.0.1, by port.
func (l *Lab) knownHosts(name string, keys map[int]ssh.PublicKey) (string, error) {
	var b strings.Builder
	for port, key := range keys {
		b.WriteString(knownhosts.Line([]string{knownhosts.Normalize(fmt.Sprintf("127.0.0.1:%d", port))}, key) + "\n")
	}
	path := filepath.Join(l.Site.Path("keys"), name)
	return path, l.write(path, b.String(), 0o644)
}
