//go:build !crashpoints

package app

import (
	"net/http"

	"config-server/internal/nas"
	"config-server/internal/saga"
)

// A production build has no crash points: the tests' switch is compiled in by the tag crashpoints.
func crashPoints(next saga.Observer) saga.Observer { return next }

func crashPoint(string) {}

func crashTransport() func(http.RoundTripper) http.RoundTripper { return nil }

func crashRunner(runner nas.Runner) nas.Runner { return runner }
