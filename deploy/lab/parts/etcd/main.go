// Command etcd starts the etcd server. The upstream main package lives in a module with
// replace directives and cannot be installed by version, so this one calls its entry point.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
