package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"config-server/internal/farm"
)

// userAgent names the service in the API server's audit log.
const userAgent = "config-server"

// loadConfig looks in the cluster first: a pod has no kubeconfig.
func loadConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		cfg, err := rest.InClusterConfig()
		if err == nil {
			return cfg, nil
		}
		if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, fmt.Errorf("read the in-cluster configuration: %w", err)
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	return cfg, nil
}

// tuned returns a copy for typed calls. The API server has fairness of its own, so the client does
// not throttle; protobuf costs both sides less than JSON; and no time-out is set on the whole
// transport because watches live on it: each call has its own deadline.
func tuned(cfg *rest.Config) *rest.Config {
	c := rest.CopyConfig(cfg)
	c.QPS = -1
	c.Timeout = 0
	c.UserAgent = userAgent
	c.ContentType = "application/vnd.kubernetes.protobuf"
	c.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return c
}

// warnings logs what the API server warns of in its answers, with the request's id. Without it the
// client library would write such a line to standard error by itself.
type warnings struct{ log *slog.Logger }

// warningCode is the one code of such warnings that has a meaning for all.
const warningCode = 299

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	if code == warningCode && text != "" {
		w.log.WarnContext(ctx, "the API server warns", "text", farm.CutText(text, maxText))
	}
}

// RESTConfig finds the API server as the service does: in a pod its ServiceAccount, else the kubeconfig, "" = KUBECONFIG or the user's.
func RESTConfig(kubeconfig string) (*rest.Config, error) { return loadConfig(kubeconfig) }
