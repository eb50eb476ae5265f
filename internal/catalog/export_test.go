package catalog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"config-server/internal/catalog"
	"config-server/internal/farm"
	"config-server/internal/podspec"
)

func request(path string) catalog.ExportRequest {
	return catalog.ExportRequest{Image: "decs:1", Path: path}
}

func TestImagesExportPaths(t *testing.T) {
	t.Parallel()
	content := archive(t, map[string]string{"etc/ssh/x": "y"})
	for path, want := range map[string]string{
		"/etc/ssh": "etc/ssh", "/etc//ssh/": "etc/ssh", "/etc/./ssh": "etc/ssh", "/-rf": "-rf", "/$(reboot)": "$(reboot)", "/a b'\"": "a b'\"", "/..a/b..": "..a/b..", "/device": "device",
	} {
		s := newStand(t, func(s *stand) { s.log = writing(logOf(content)) })
		tar, err := s.Export(t.Context(), request(path))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		_ = tar.Close()
		command := s.created.Spec.Containers[0].Command
		if len(command) != 6 || command[4] != want || strings.Contains(command[2], want) {
			t.Errorf("%s: command %q", path, command)
		}
	}
	for _, path := range []string{"", "/", "//", "/.", "etc", "./etc", "../etc", "/../etc", "/etc/..", "/a/../b", "/a\nb", "/a\x00b", "/proc", "/proc/1/environ", "/sys/", "/dev/null", "//dev", "/" + strings.Repeat("a", 4096)} {
		s := newStand(t, nil)
		if _, err := s.Export(t.Context(), request(path)); farmKind(err) != farm.Invalid || s.called("") > 0 {
			t.Errorf("%q: %v, %v", path, err, s.calls)
		}
	}
	for _, bad := range []catalog.ExportRequest{{Image: "Decs", Path: "/a"}, {Path: "/a"}, {Image: "decs", Path: "/a", Node: "Farm 5"}} {
		s := newStand(t, nil)
		if _, err := s.Export(t.Context(), bad); farmKind(err) != farm.Invalid || s.called("") > 0 {
			t.Errorf("%+v: %v, %v", bad, err, s.calls)
		}
	}
}

// What a pod is made of: the image, as it is pinned, and of the session template where pods run.
func TestImagesExportTakesTheSession(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(s *stand) {
		s.log = writing(logOf(archive(t, map[string]string{"a": "b"})))
		s.template = session("lab")
		s.template.Template.Spec.NodeSelector = map[string]string{"farm": "yes"}
		s.template.Template.Spec.Containers = []corev1.Container{{Name: "shell", Image: "unused"}, {Name: "sidecar", Image: "other"}}
		s.pins["decs:1"] = farm.Pin{Image: "decs:1", Digest: digestA}
	})
	for node, want := range map[string][]string{"": {"decs@" + digestA, "IfNotPresent", ""}, "farm5": {"decs@" + digestA, "IfNotPresent", "farm5"}} {
		tar, err := s.Export(t.Context(), catalog.ExportRequest{Image: "docker.io/library/decs:1", Path: "/a", Node: node})
		if err != nil {
			t.Fatal(err)
		}
		_ = tar.Close()
		spec := s.created.Spec
		got := []string{spec.Containers[0].Image, string(spec.Containers[0].ImagePullPolicy), spec.NodeName}
		if diff := cmp.Diff(want, got); diff != "" || len(spec.Containers) != 1 || spec.NodeSelector["farm"] != "yes" || len(spec.ImagePullSecrets) != 1 {
			t.Errorf("%+v (-want +got)\n%s", spec, diff)
		}
	}
	other, err := s.Export(t.Context(), catalog.ExportRequest{Image: "decs:2", Path: "/a"})
	if err != nil {
		t.Fatal(err)
	}
	_ = other.Close()
	if c := s.created.Spec.Containers[0]; c.Image != "decs:2" || c.ImagePullPolicy != corev1.PullNever {
		t.Errorf("not pinned: %s, %s", c.Image, c.ImagePullPolicy)
	}
}

// cutting ends a log with an error of its own.
type cutting struct{ err error }

func (c cutting) Read([]byte) (int, error) { return 0, c.err }

// Whatever happens, the pod is removed once, and the place of the export is free again.
func TestImagesExportIsAlwaysRemoved(t *testing.T) {
	t.Parallel()
	content := archive(t, map[string]string{"etc/ssh/x": strings.Repeat("y", 100_000)})
	whole := logOf(content)
	lost := errors.New("connection reset")
	for name, tc := range map[string]struct {
		change  func(*stand)
		kind    farm.Kind // of Export; empty = it gives a tar
		text    string    // of the failure, wherever it is seen; empty = all is well
		removed string
	}{
		"all is well":            {func(s *stand) { s.log = writing(whole) }, "", "", "uid-1"},
		"no answer to the pod":   {func(s *stand) { s.create = lost }, farm.Unavailable, "connection reset", "uid-2"},
		"it does not start":      {func(s *stand) { s.start = fmt.Errorf("wait: %w: ErrImageNeverPull", farm.ErrNeverReady) }, farm.Upstream, "ErrImageNeverPull", "uid-1"},
		"no log":                 {func(s *stand) { s.log = func(context.Context) (io.ReadCloser, error) { return nil, lost } }, farm.Unavailable, "connection reset", "uid-1"},
		"no such path":           {func(s *stand) { s.log, s.end = writing(""), farm.PodEnd{ExitCode: podspec.ExportNoPath} }, farm.NotFound, "image decs:1 has no /etc/ssh", "uid-1"},
		"no tar in the image":    {func(s *stand) { s.log, s.end = writing(""), farm.PodEnd{ExitCode: 65, Message: "tar: not found"} }, farm.Upstream, "it ended with status 65: tar: not found", "uid-1"},
		"ended, nobody says why": {func(s *stand) { s.log, s.endErr = writing("\n"), farm.ErrWaitTimeout }, farm.Upstream, "nobody knows why", "uid-1"},
		"counted as too large": {func(s *stand) {
			s.log, s.end = writing(""), farm.PodEnd{ExitCode: podspec.ExportTooLarge, Message: "9 bytes"}
		}, farm.TooLarge, "may have 7340032 bytes", "uid-1"},
		"only the last word":   {func(s *stand) { s.log = writing("\n=done 0\n") }, farm.Upstream, "it ended with status 0", "uid-1"},
		"no base64":            {func(s *stand) { s.log = writing(strings.Repeat("????\n", 1000)) }, farm.Upstream, "illegal base64", "uid-1"},
		"the log is cut":       {func(s *stand) { s.log = writing(whole[:len(whole)/2]) }, "", "the log ends before", "uid-1"},
		"the last word lacks":  {func(s *stand) { s.log = writing(strings.TrimSuffix(whole, "=done 102400\n")) }, "", "the log ends before", "uid-1"},
		"another last word":    {func(s *stand) { s.log = writing(strings.Replace(whole, "=done", "=dont", 1)) }, "", "illegal base64", "uid-1"},
		"a line is lost":       {func(s *stand) { s.log = writing(whole[:77*700] + whole[77*701:]) }, "", "102343 of 102400 bytes came", "uid-1"},
		"more than it says":    {func(s *stand) { s.log = writing(sizedLog(content, 512)) }, "", "102400 of 512 bytes came", "uid-1"},
		"the last word is cut": {func(s *stand) { s.log = writing(strings.TrimSuffix(whole, "102400\n")) }, "", "the log ends before", "uid-1"},
		"too large": {func(s *stand) {
			s.log = writing(logOf(archive(t, map[string]string{"a": strings.Repeat("y", podspec.ExportMax)})))
		}, "", "too large", "uid-1"},
		"the connection breaks": {func(s *stand) {
			s.log = func(context.Context) (io.ReadCloser, error) {
				return io.NopCloser(io.MultiReader(strings.NewReader(whole[:77*800]), cutting{lost})), nil
			}
		}, "", "connection reset", "uid-1"},
		"it cannot be removed": {func(s *stand) { s.log, s.removing = writing(whole), lost }, "", "", "uid-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, tc.change)
			for range 10 { // more than may run at once
				got, err := s.Export(t.Context(), request("/etc/ssh"))
				if farmKind(err) != tc.kind {
					t.Fatalf("%v", err)
				}
				if err == nil {
					var read []byte
					read, err = io.ReadAll(got)
					if err == nil && !bytes.Equal(read, content) {
						t.Errorf("%d bytes of %d came", len(read), len(content))
					}
					_ = got.Close()
				}
				if (tc.text == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.text) {
					t.Fatalf("%v, want %s", err, tc.text)
				}
			}
			if s.called("delete image-export- "+tc.removed) != 10 || s.called("delete") != 10 {
				t.Errorf("%v", s.calls)
			}
			if said := strings.Contains(s.logged.String(), "is left, to be removed later"); said != (s.removing != nil) {
				t.Errorf("log: %s", s.logged.String())
			}
		})
	}
}

// The caller goes: the log ends with its context, and the pod is removed all the same.
func TestImagesExportOfACallerWhoGoes(t *testing.T) {
	t.Parallel()
	whole := logOf(archive(t, map[string]string{"a": strings.Repeat("y", 200_000)}))
	s := newStand(t, func(s *stand) {
		s.log = func(ctx context.Context) (io.ReadCloser, error) {
			reader, writer := io.Pipe()
			go func() {
				_, _ = io.WriteString(writer, whole[:77*1500])
				<-ctx.Done()
				_ = writer.CloseWithError(ctx.Err())
			}()
			return reader, nil
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	got, err := s.Export(ctx, request("/a"))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.ReadAll(got); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	_ = got.Close()
	if s.called("delete image-export- uid-1") != 1 || s.called("delete in vain") != 0 {
		t.Errorf("%v", s.calls)
	}
	// One that is not read to its end leaves nothing either.
	idle, err := s.Export(t.Context(), request("/a"))
	if err != nil {
		t.Fatal(err)
	}
	_ = idle.Close()
	if s.called("delete image-export- uid-1") != 2 {
		t.Errorf("%v", s.calls)
	}
}

func TestImagesExportsAtOnce(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(s *stand) { s.log = writing(logOf(archive(t, map[string]string{"a": "b"}))) })
	var running []io.Closer
	for range 4 {
		got, err := s.Export(t.Context(), request("/a"))
		if err != nil {
			t.Fatal(err)
		}
		running = append(running, got)
	}
	if _, err := s.Export(t.Context(), request("/a")); farmKind(err) != farm.Unavailable || s.called("create") != 4 {
		t.Errorf("the fifth: %v, %v", err, s.calls)
	}
	for _, one := range running {
		_ = one.Close()
	}
	got, err := s.Export(t.Context(), request("/a"))
	if err != nil {
		t.Fatal(err)
	}
	_ = got.Close()
}

func TestImagesTarOfALog(t *testing.T) {
	t.Parallel()
	for name, content := range map[string][]byte{
		"one file": archive(t, map[string]string{"a": "b"}), "many": archive(t, map[string]string{"a": "b", "c": strings.Repeat("d", 5000), "e/f": ""}),
		"one long line": archive(t, map[string]string{"a": strings.Repeat("b", 300_000)}), "of every length of base64": []byte("1234"), "of two": []byte("12345"), "of three": []byte("123456"),
	} {
		for _, text := range []string{logOf(content), strings.ReplaceAll(logOf(content), "\n", "\r\n"), strings.Replace(strings.ReplaceAll(logOf(content), "\n", ""), "=done", "\n=done", 1), strings.Replace(logOf(content), "=done ", "=done    ", 1)} {
			s := newStand(t, func(s *stand) { s.log = writing(text) })
			got, err := s.Export(t.Context(), request("/a"))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			read, err := io.ReadAll(got)
			_ = got.Close()
			if err != nil || !bytes.Equal(read, content) {
				t.Errorf("%s: %d bytes of %d, %v", name, len(read), len(content), err)
			}
		}
	}
}

func TestImagesLeftExports(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(s *stand) {
		s.left = []farm.Pod{
			{Name: "image-export-00000001", UID: "old", CreatedAt: s.now.Add(-901 * time.Second)},
			{Name: "image-export-00000002", UID: "young", CreatedAt: s.now.Add(-900 * time.Second)},
			{Name: "image-export-00000003", UID: "going", CreatedAt: s.now.Add(-time.Hour), Terminating: true},
		}
	})
	lines, err := s.PreviewLeft(t.Context())
	if diff := cmp.Diff([]string{"pod image-export-00000001 of an image export would be removed"}, lines); err != nil || diff != "" || s.called("delete") != 0 {
		t.Errorf("preview: %v, %v (-want +got)\n%s", err, s.calls, diff)
	}
	lines, err = s.RemoveLeft(t.Context())
	if diff := cmp.Diff([]string{"pod image-export-00000001 of an image export removed"}, lines); err != nil || diff != "" || s.called("delete image-export- old") != 1 || s.called("delete") != 1 {
		t.Errorf("%v, %v (-want +got)\n%s", err, s.calls, diff)
	}
	s.removing = errors.New("no")
	if lines, err = s.RemoveLeft(t.Context()); !errors.Is(err, s.removing) || len(lines) != 0 {
		t.Errorf("a pod that stays: %v, %v", lines, err)
	}
	s.leftErr = errors.New("down")
	if _, err = s.RemoveLeft(t.Context()); !errors.Is(err, s.leftErr) {
		t.Errorf("%v", err)
	}
}
