// Command parts starts the costly parts of the tests once for a whole run:
//
//	parts up COMMAND [ARGUMENT...]
//
// starts MariaDB and a cluster, runs the command with their addresses in its environment, stops
// them, and ends with the command's exit status.
//
//	parts kubelet ADDRESS CERTIFICATE KEY FOLDER
//
// answers exec calls for pods that kwok plays; testkit runs it as one part of a cluster.
package main

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"config-server/internal/testkit"
	"config-server/internal/testkit/kubelet"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("parts: ")
	os.Exit(run(os.Args[1:]))
}

// run returns the exit status.
func run(args []string) int {
	switch {
	case len(args) >= 2 && args[0] == "up":
		return up(args[1:])
	case len(args) == 5 && args[0] == "kubelet":
		log.Print(serveKubelet(args[1], args[2], args[3], args[4]))
		return 1
	}
	fmt.Fprintln(os.Stderr, "usage: parts up COMMAND [ARGUMENT...] | parts kubelet ADDRESS CERTIFICATE KEY FOLDER")
	return 2
}

func serveKubelet(address, certificate, key, folder string) error {
	return http.ListenAndServeTLS(address, certificate, key, &kubelet.Server{Folder: folder})
}

// up runs command with shared parts. A signal to end reaches the command with all its children, and
// the parts end after it.
func up(command []string) int {
	// go run, which starts this command, passes no signal on; its end is what is noticed.
	if err := dieWithParent(syscall.SIGTERM); err != nil {
		log.Print(err)
		return 1
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	set, err := testkit.StartSet(log.Printf)
	if err != nil {
		log.Print(err)
		return 1
	}
	defer set.Stop()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), testkit.SharedEnv+"="+set.File)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		log.Printf("run %s: %v", command[0], err)
		return 1
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case sig := <-signals:
		log.Printf("ending: %s", sig)
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		<-ended
		return 1
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	}
	log.Printf("run %s: %v", command[0], err)
	return 1
}

// dieWithParent asks for sig when the parent of this process ends.
func dieWithParent(sig syscall.Signal) error {
	// The wish belongs to a thread; main keeps this one.
	runtime.LockOSThread()
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(sig), 0); errno != 0 {
		return fmt.Errorf("follow the parent's end: %w", errno)
	}
	return nil
}
