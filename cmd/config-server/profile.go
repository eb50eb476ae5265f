//go:build profiling

package main

import (
	"log"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime"
)

// This build serves Go's profiles on PROFILE_ADDR, for make bench and its profiles. It is an init
// function of a tagged file so that nothing in the service's own code knows of it.
func init() {
	address := os.Getenv("PROFILE_ADDR")
	if address == "" {
		return
	}
	runtime.SetBlockProfileRate(10_000) // one sample for each 10 µs of waiting
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	go func() { log.Print(http.ListenAndServe(address, mux)) }()
}
