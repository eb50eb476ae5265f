package remote_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"config-server/internal/remote"
	"config-server/internal/testkit"
)

func TestReachLogsInAndRunsNothing(t *testing.T) {
	t.Parallel()
	server := testkit.SSHD(t, testkit.SSHDOptions{Script: "exit 64"})
	client := realClient(t, server)
	for range 2 {
		if err := client.Reach(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if commands := server.Commands(t); len(commands) > 0 {
		t.Errorf("commands %q", commands)
	}
	server.Stop()
	var connect *remote.ConnectError
	testkit.WaitFor(t, 20*time.Second, "the end of the connection", func(ctx context.Context) error {
		if err := client.Reach(ctx); !errors.As(err, &connect) {
			return errors.Join(errors.New("no connect error"), err)
		}
		return nil
	})
}
