package app

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/farm"
)

// state is everything that a request may leave behind.
type state struct {
	files      map[string]string // of the share
	homes      map[string]uint32 // name -> owner
	workspaces map[string]workspace
	records    []string // kind and stage of the operations
}

type workspace struct {
	pod, ending          bool
	services, rows, gpus int
}

// look reads the state past all proxies.
func (s *stand) look(t testing.TB) state {
	t.Helper()
	// A row may have ended the test's own context only by ending the test.
	ctx := context.WithoutCancel(t.Context())
	now := state{files: s.ShareFiles(t), homes: map[string]uint32{}, workspaces: map[string]workspace{}}
	entries, err := os.ReadDir(s.NAS.ShareDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		now.homes[entry.Name()] = info.Sys().(*syscall.Stat_t).Uid
	}
	pods, err := s.kube.CoreV1().Pods(s.Cluster.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		now.change(pod.Name, func(w *workspace) { w.pod, w.ending = true, pod.DeletionTimestamp != nil })
	}
	services, err := s.kube.CoreV1().Services(s.Cluster.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, service := range services.Items {
		now.change(service.Labels[farm.LabelPod], func(w *workspace) { w.services++ })
	}
	s.each(ctx, t, "SELECT pod_name, '' FROM nodeport_allocations", func(pod, _ string) { now.change(pod, func(w *workspace) { w.rows++ }) })
	s.each(ctx, t, "SELECT pod_name, '' FROM config_server_gpus", func(pod, _ string) { now.change(pod, func(w *workspace) { w.gpus++ }) })
	s.each(ctx, t, "SELECT kind, stage FROM config_server_operations ORDER BY kind, stage", func(kind, stage string) {
		now.records = append(now.records, "record "+kind+" "+stage)
	})
	return now
}

func (s *stand) each(ctx context.Context, t testing.TB, query string, do func(a, b string)) {
	t.Helper()
	rows, err := s.db.QueryContext(ctx, query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var a, b string
		if err := rows.Scan(&a, &b); err != nil {
			t.Fatal(err)
		}
		do(a, b)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

func (s *state) change(pod string, do func(*workspace)) {
	w := s.workspaces[pod]
	do(&w)
	s.workspaces[pod] = w
}

const unchanged = "as before"

// since tells what differs from an earlier state, in few words and always in the same order.
func (s *state) since(before state) string {
	var parts []string
	names := maps.Clone(before.workspaces)
	maps.Copy(names, s.workspaces)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		now, was := s.workspaces[name], before.workspaces[name]
		label := "new: "
		if was != (workspace{}) {
			label = "old: "
		}
		if now != was {
			parts = append(parts, label+now.String())
		}
	}
	slices.SortStableFunc(parts, func(a, b string) int { return strings.Compare(b[:3], a[:3]) }) // old before new
	parts = append(parts, s.records...)
	if files := s.changedFiles(before); len(files) > 0 {
		parts = append(parts, "files: "+strings.Join(files, ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(s.homes)) {
		if owner, there := before.homes[name]; !there {
			parts = append(parts, "home made, owner "+ownerText(s.homes[name]))
		} else if owner != s.homes[name] {
			parts = append(parts, "home given to "+ownerText(s.homes[name]))
		}
	}
	for name := range before.homes {
		if _, there := s.homes[name]; !there {
			parts = append(parts, "home gone")
		}
	}
	if len(parts) == 0 {
		return unchanged
	}
	return strings.Join(parts, "; ")
}

func ownerText(uid uint32) string {
	if uid == 0 {
		return "root"
	}
	return "the user"
}

// changedFiles names files that differ, journal entries by what they are about.
func (s *state) changedFiles(before state) []string {
	all := maps.Clone(before.files)
	maps.Copy(all, s.files)
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text, there := s.files[name]
		was, wasThere := before.files[name]
		switch {
		case there == wasThere && text == was:
		case name == ".config-server/retired":
			// It tells which numbers were ever given, and only grows: by what an earlier row left too.
		case filepath.Ext(name) == ".json" && strings.Contains(name, "journal"):
			var entry struct{ Kind string }
			if json.Unmarshal([]byte(text), &entry) != nil {
				entry.Kind = "unreadable"
			}
			changed = append(changed, "journal "+entry.Kind)
		default:
			changed = append(changed, filepath.Base(name))
		}
	}
	return changed
}

// String lists what there is of a workspace.
func (w workspace) String() string {
	var parts []string
	if w.pod && w.ending {
		parts = append(parts, "pod that is ending")
	} else if w.pod {
		parts = append(parts, "pod")
	}
	if w.services > 0 {
		parts = append(parts, fmt.Sprintf("%d Services", w.services))
	}
	if w.rows > 0 {
		parts = append(parts, fmt.Sprintf("%d rows", w.rows))
	}
	if w.gpus > 0 {
		parts = append(parts, fmt.Sprintf("%d GPUs", w.gpus))
	}
	if len(parts) == 0 {
		return "gone"
	}
	return strings.Join(parts, ", ")
}

// sweep takes away all workspaces and records, so that the next row begins on a clean farm.
func (s *stand) sweep(t testing.TB) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	at := int64(0)
	pods := s.kube.CoreV1().Pods(s.Cluster.Namespace)
	if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &at}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	services := s.kube.CoreV1().Services(s.Cluster.Namespace)
	list, err := services.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, service := range list.Items {
		if err := services.Delete(ctx, service.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range []string{"nodeport_allocations", "config_server_operations", "config_server_gpus"} {
		if _, err := s.db.ExecContext(ctx, "DELETE FROM "+table); err != nil {
			t.Fatal(err)
		}
	}
}

// pods counts the pods of the stand.
func (s *stand) pods(t testing.TB) int {
	t.Helper()
	list, err := s.kube.CoreV1().Pods(s.Cluster.Namespace).List(context.WithoutCancel(t.Context()), metav1.ListOptions{})
	if err != nil {
		t.Error(err)
		return 0
	}
	return len(list.Items)
}

// removeNewPods removes all pods but the one that the row began with, at once, as an operator would.
func (s *stand) removeNewPods(t testing.TB) {
	t.Helper()
	list, err := s.kube.CoreV1().Pods(s.Cluster.Namespace).List(context.WithoutCancel(t.Context()), metav1.ListOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	for _, pod := range list.Items {
		if pod.Name != s.pod {
			s.removePod(t, pod.Name)
		}
	}
}

// removeOldPod removes the pod that the row began with.
func (s *stand) removeOldPod(t testing.TB) { s.removePod(t, s.pod) }

func (s *stand) removePod(t testing.TB, name string) {
	t.Helper()
	at := int64(0)
	err := s.kube.CoreV1().Pods(s.Cluster.Namespace).Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{GracePeriodSeconds: &at})
	if err != nil {
		t.Error(err)
	}
}
