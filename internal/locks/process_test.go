package locks_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"config-server/internal/locks"
)

// holderDir makes this test binary a process that takes a lock, says so, and waits for its end.
const holderDir = "LOCKS_TEST_HOLDER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holderDir); dir != "" {
		hold(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func hold(dir string) {
	_, ok, err := locks.NewLocal(dir).TryLock(context.Background(), "ledger")
	fmt.Println(ok, err)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

func TestLocalLockOfAProcessThatIsKilledIsFree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	holder := exec.CommandContext(t.Context(), os.Args[0])
	holder.Env = append(os.Environ(), holderDir+"="+dir)
	in, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || said != "true <nil>\n" {
		t.Fatalf("the holder said %q, %v", said, err)
	}
	l := locks.NewLocal(dir)
	wantFree(t, l, "ledger", false)
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait() // it was killed, and says so
	wantFree(t, l, "ledger", true)
}
