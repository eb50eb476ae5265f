package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args   []string
		code   int
		out    string // text on standard output
		errors string // text on standard error
	}{
		"help":                        {[]string{"help"}, exitOK, "Subcommands:", ""},
		"-h":                          {[]string{"-h"}, exitOK, "Subcommands:", ""},
		"version":                     {[]string{"version"}, exitOK, "config-server dev", ""},
		"-version":                    {[]string{"-version"}, exitOK, "config-server dev", ""},
		"version takes nothing":       {[]string{"version", "x"}, exitUsage, "", "unexpected argument"},
		"serve -h":                    {[]string{"serve", "-h"}, exitOK, "config-server serve", ""},
		"serve takes nothing":         {[]string{"serve", "x"}, exitUsage, "", "unexpected argument"},
		"check takes nothing":         {[]string{"check", "x"}, exitUsage, "", "unexpected argument"},
		"audit -h":                    {[]string{"audit", "-h"}, exitOK, "", "-o"},
		"unknown":                     {[]string{"serv"}, exitUsage, "", "unknown subcommand"},
		"serve without configuration": {nil, exitUsage, "", "NAS_SSH_HOST"},
		"check without configuration": {[]string{"check"}, exitUsage, "", "NFS_SERVER"},
		"audit without configuration": {[]string{"audit"}, exitUsage, "", "NAS_SSH_USER"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errors bytes.Buffer
			code := run(t.Context(), invocation{args: tc.args, out: &out, errors: &errors})
			if code != tc.code || !strings.Contains(out.String(), tc.out) || !strings.Contains(errors.String(), tc.errors) {
				t.Errorf("code %d\n%s\n%s", code, out.String(), errors.String())
			}
		})
	}
}
