package testkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// AuditedCluster is an OwnCluster whose API server notes what ServiceAccounts ask of it. Like API servers before
// Kubernetes 1.34 it streams no first list, so that whoever watches lists first and needs that right too.
type AuditedCluster struct {
	*KubeCluster
	log string
}

// APIRequest is one request that a ServiceAccount has made.
type APIRequest struct {
	Verb      string
	Group     string // of the API; empty = core
	Resource  string // with its subresource, as a rule names it: pods/exec; empty = none, see Path
	Namespace string // empty = the whole cluster
	Path      string // with the query
	Code      int    // HTTP status of the answer
	Reason    string // which binding allowed it, or why none did
}

// auditPolicy notes the requests of pods' accounts without their bodies, which may have secrets.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    userGroups: [system:serviceaccounts]
  - level: None
`

// Audited starts an AuditedCluster for this test alone.
func Audited(t testing.TB) *AuditedCluster {
	t.Helper()
	dir := testPartDir(t, "cluster")
	policy, log := filepath.Join(dir, "audit-policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatalf("write the audit policy: %v", err)
	}
	own := ownCluster(t, dir, "--audit-policy-file="+policy, "--audit-log-path="+log, "--feature-gates=WatchList=false")
	return &AuditedCluster{KubeCluster: own, log: log}
}

// Requests returns what was asked up to now, in order of the answers. A watch and a command count when they begin.
func (c *AuditedCluster) Requests(t testing.TB) []APIRequest {
	t.Helper()
	text, err := os.ReadFile(c.log)
	if errors.Is(err, os.ErrNotExist) {
		return nil // nobody has asked
	}
	if err != nil {
		t.Fatalf("read the audit log: %v", err)
	}
	var requests []APIRequest
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var event struct {
			Verb, RequestURI string
			ObjectRef        struct{ APIGroup, Resource, Subresource, Namespace string }
			ResponseStatus   struct{ Code int }
			Annotations      map[string]string
		}
		err := decoder.Decode(&event)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return requests // the last line may be under way
		}
		if err != nil {
			t.Fatalf("read the audit log: %v", err)
		}
		request := APIRequest{
			Verb: event.Verb, Group: event.ObjectRef.APIGroup, Resource: event.ObjectRef.Resource, Namespace: event.ObjectRef.Namespace,
			Path: event.RequestURI, Code: event.ResponseStatus.Code, Reason: event.Annotations["authorization.k8s.io/reason"],
		}
		if event.ObjectRef.Subresource != "" {
			request.Resource += "/" + event.ObjectRef.Subresource
		}
		requests = append(requests, request)
	}
}
