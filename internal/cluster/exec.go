package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"
	"k8s.io/streaming/pkg/httpstream"

	"config-server/internal/farm"
)

// ExecFunc runs a command in a container of a pod and waits for its end or for ctx.
type ExecFunc func(ctx context.Context, pod farm.PodName, container string, command []string) (farm.ExecResult, error)

// maxOutput is how much of each stream of a command is kept, in bytes.
const maxOutput = 16 << 10

// Exec runs a command in a container and waits for its end. A command that ran and ended with a
// status other than 0 is a result; an error means that it was not run, or that its end is unknown.
// The deadline is ctx's alone, because saving an image takes minutes.
func (c *Cluster) Exec(ctx context.Context, pod farm.PodName, container string, command []string) (farm.ExecResult, error) {
	operation := fmt.Sprintf("exec in pod %s, container %s", pod, container)
	if c.setupErr != nil {
		return farm.ExecResult{}, fmt.Errorf("%s: %w", operation, c.setupErr)
	}
	if c.exec == nil {
		return farm.ExecResult{}, fmt.Errorf("%s: this client cannot run commands", operation)
	}
	begin := time.Now()
	result, err := c.exec(ctx, pod, container, command)
	c.called.Tell(ctx, operation, begin, unanswered(err))
	switch {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return result, fmt.Errorf("%s: %w (%w)", operation, context.Cause(ctx), err)
	default:
		return result, fmt.Errorf("%s: %w", operation, apiError(err))
	}
}

// remoteExec runs commands through the API server and kubelet: by WebSocket, and by SPDY where an
// older server or a proxy in between does not upgrade to it.
func remoteExec(client kubernetes.Interface, cfg *rest.Config, namespace string) ExecFunc {
	streaming := rest.CopyConfig(cfg)
	streaming.Timeout = 0
	streaming.UserAgent = userAgent
	return func(ctx context.Context, pod farm.PodName, container string, command []string) (farm.ExecResult, error) {
		url := client.CoreV1().RESTClient().Post().
			Resource("pods").Namespace(namespace).Name(string(pod)).SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{
				Container: container,
				Command:   command,
				Stdout:    true,
				Stderr:    true,
			}, scheme.ParameterCodec).URL()
		// Executors keep the state of one connection, so each command has its own.
		websocket, err := remotecommand.NewWebSocketExecutor(streaming, "GET", url.String())
		if err != nil {
			return farm.ExecResult{}, err
		}
		spdy, err := remotecommand.NewSPDYExecutor(streaming, "POST", url)
		if err != nil {
			return farm.ExecResult{}, err
		}
		executor, err := remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
			return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
		})
		if err != nil {
			return farm.ExecResult{}, err
		}
		stdout, stderr := &tail{limit: maxOutput}, &tail{limit: maxOutput}
		// What the library logs of a broken stream is in the error too.
		ctx = klog.NewContext(ctx, logr.Discard())
		err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: stdout, Stderr: stderr})
		result := farm.ExecResult{Stdout: stdout.String(), Stderr: stderr.String()}
		var exited exec.CodeExitError
		if errors.As(err, &exited) {
			result.ExitCode = exited.Code
			return result, nil
		}
		return result, err
	}
}
