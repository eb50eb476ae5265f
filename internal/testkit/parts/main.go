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

// up runs command with shared parts.
func up(command []string) int {
	set, err := testkit.StartSet(log.Printf)
	if err != nil {
		log.Print(err)
		return 1
	}
	defer set.Stop()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), testkit.SharedEnv+"="+set.File)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
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
