package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// byHand runs a subcommand of the real binary in a world, with env over the world's own.
func byHand(t *testing.T, w *world.World, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	binary, err := testkit.ServiceBinary(testkit.Build{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, binary, args...)
	full := maps.Clone(w.Env)
	maps.Copy(full, env)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	for name, value := range full {
		command.Env = append(command.Env, name+"="+value)
	}
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	err = command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v\n%s", args, err, errs.String())
	}
	return command.ProcessState.ExitCode(), out.String(), errs.String()
}

// farmState is everything that a program which only looks must leave as it is: files with mode and
// time, homes, rows, records, pods and Services with their versions.
func farmState(t *testing.T, w *world.World) map[string]string {
	t.Helper()
	state := map[string]string{}
	for label, root := range map[string]string{"share": w.Share, "homes": w.NAS.ShareDir, "images": w.Images} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			text := fmt.Sprint(info.Mode(), info.ModTime())
			if entry.Type().IsRegular() {
				content, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				text += " " + string(content)
			}
			state[label+strings.TrimPrefix(path, root)] = text
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, pod := range w.Pods(t) {
		state["pod "+pod.Name] = string(pod.UID) + " " + pod.ResourceVersion
	}
	for _, service := range w.Services(t) {
		state["Service "+service.Name] = string(service.UID) + " " + service.ResourceVersion
	}
	db := w.MariaDB.Open(t, w.Database)
	tables, err := db.QueryContext(t.Context(), "SELECT table_name FROM information_schema.tables WHERE table_schema = ?", w.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tables.Close() }()
	for tables.Next() {
		var name, ignored, sum string
		if err := tables.Scan(&name); err != nil {
			t.Fatal(err)
		}
		if name == "config_server_audit" || name == "config_server_progress" {
			continue // the outcome of a look, and what is written a moment after it was done
		}
		if err := w.MariaDB.Open(t, w.Database).QueryRowContext(t.Context(), "CHECKSUM TABLE "+name+" EXTENDED").Scan(&ignored, &sum); err != nil {
			t.Fatal(err)
		}
		state["table "+name] = sum
	}
	if err := tables.Err(); err != nil {
		t.Fatal(err)
	}
	return state
}

// wantSame tells what differs between two states.
func wantSame(t *testing.T, before, after map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if before[name] != after[name] {
			t.Errorf("%s was changed", name)
		}
	}
	for name := range before {
		if _, there := after[name]; !there {
			t.Errorf("%s is gone", name)
		}
	}
}

// sqlExec runs a statement in the world's database.
func sqlExec(t *testing.T, w *world.World, statement string, args ...any) {
	t.Helper()
	if _, err := w.MariaDB.Open(t, w.Database).ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}

// workspaceOf makes a user with a workspace and returns the pod's name.
func workspaceOf(t *testing.T, base, user string) string {
	t.Helper()
	world.Call(t, base, "PUT", "/accounts/users", world.UserBody(user), 201)
	return world.Call(t, base, "POST", "/create-pod", `{"username":"`+user+`"}`, 201).Text("pod_name")
}

// testLimit bounds the wait for a process that was asked to end.
const testLimit = time.Minute

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

func replaceIn(t *testing.T, path, old, new string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s has no %q", path, old)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// lineOf is the number of the line with this text.
func lineOf(t *testing.T, path, line string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(slices.Index(strings.Split(string(text), "\n"), line) + 1)
}

// reported reads a report in JSON: the key of each finding's kind and object, and all of it.
func reported(t *testing.T, stdout string) (findings map[string]map[string]any) {
	t.Helper()
	var report struct{ Findings []map[string]any }
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("report: %v\n%s", err, stdout)
	}
	findings = map[string]map[string]any{}
	for _, f := range report.Findings {
		findings[fmt.Sprint(f["kind"], " ", f["object"])] = f
	}
	return findings
}
