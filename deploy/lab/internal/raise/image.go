package raise

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"config-server/deploy/lab/internal/images"
	"config-server/deploy/lab/internal/site"
)

// packages of the workspace image, beside Debian's essential ones.
var packages = []string{"openssh-server", "sudo", "python3", "procps", "iproute2", "krb5-user", "ca-certificates"}

//go:embed workspace
var workspace embed.FS

// imageArchive is the file with the lab's images, as prepare has made it.
func (l *Lab) imageArchive() (string, error) {
	path := l.Site.Path("images", "lab.tar")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find the images: %w", err)
	}
	return path, nil
}

// makeImages makes the lab's images from Debian's packages and the files here, unless they are
// there already.
func (l *Lab) makeImages(ctx context.Context) error {
	base, err := l.workspaceBase(ctx)
	if err != nil {
		return err
	}
	pause := filepath.Join(filepath.Dir(l.Program), "pause")
	stamp, err := stampOf(base, pause)
	if err != nil {
		return err
	}
	archive, marker := l.Site.Path("images", "lab.tar"), l.Site.Path("images", "stamp")
	if was, err := os.ReadFile(marker); err == nil && string(was) == stamp {
		if _, err := os.Stat(archive); err == nil {
			return nil
		}
	}
	l.Say("making the images")
	var entries []images.Entry
	for name, to := range map[string]images.Entry{
		"entrypoint.sh": {Name: "usr/local/sbin/entrypoint", Mode: 0o755}, "web.py": {Name: "usr/local/bin/web", Mode: 0o755},
		"save_image.sh": {Name: "usr/local/bin/save_image.sh", Mode: 0o755}, "sshd_config": {Name: "etc/ssh/sshd_config", Mode: 0o644},
	} {
		if to.Data, err = workspace.ReadFile("workspace/" + name); err != nil {
			return fmt.Errorf("make the images: %w", err)
		}
		entries = append(entries, to)
	}
	program, err := os.ReadFile(pause)
	if err != nil {
		return fmt.Errorf("make the images: %w", err)
	}
	scripts, pauseLayer := l.Site.Path("images", "scripts.tar"), l.Site.Path("images", "pause.tar")
	if err := images.WriteLayer(scripts, entries); err != nil {
		return err
	}
	if err := images.WriteLayer(pauseLayer, []images.Entry{{Name: "pause", Mode: 0o755, Data: program}}); err != nil {
		return err
	}
	path := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	all := []images.Image{
		{Tag: site.PauseImage, Layers: []string{pauseLayer}, Entrypoint: []string{"/pause"}, WorkingDir: "/"},
		{Tag: site.WorkspaceImage, Layers: []string{base, scripts}, Entrypoint: []string{"/usr/local/sbin/entrypoint"}, Env: path, WorkingDir: "/"},
		{Tag: site.ExitingImage, Layers: []string{base, scripts}, Entrypoint: []string{"/bin/sh", "-c", "echo no workspace here >&2; exit 3"}, Env: path, WorkingDir: "/"},
	}
	if err := images.Write(archive, all); err != nil {
		return err
	}
	return l.write(marker, stamp, 0o644)
}

func stampOf(base, pause string) (string, error) {
	hash := sha256.New()
	_, _ = fmt.Fprintln(hash, base)
	program, err := os.ReadFile(pause)
	if err != nil {
		return "", fmt.Errorf("make the images: %w", err)
	}
	_, _ = hash.Write(program)
	err = fs.WalkDir(workspace, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := workspace.ReadFile(path)
		_, _ = hash.Write(text)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("make the images: %w", err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// workspaceBase is the workspace's Debian as one layer. It is made once and stays in the cache.
func (l *Lab) workspaceBase(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the workspace's Debian: %w", err)
	}
	sum := sha256.Sum256([]byte(strings.Join(packages, " ")))
	path := filepath.Join(cache, "config-server", "lab", "workspace-"+hex.EncodeToString(sum[:4])+".tar")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("make the workspace's Debian: %w", err)
	}
	sources := "/etc/apt/sources.list.d/debian.sources"
	if _, err := os.Stat(sources); errors.Is(err, fs.ErrNotExist) {
		sources = "/etc/apt/sources.list"
	}
	release, err := codename()
	if err != nil {
		return "", err
	}
	l.Say("making the workspace's Debian (once; a minute or two) ...")
	begin := time.Now()
	draft := path + ".draft"
	cmd := exec.CommandContext(ctx, "mmdebstrap", "--quiet", "--variant=essential", "--format=tar", "--include="+strings.Join(packages, ","),
		`--aptopt=Acquire::Languages "none"`, "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*", release, draft, sources)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make the workspace's Debian: %w: %s", err, out)
	}
	if err := os.Rename(draft, path); err != nil {
		return "", fmt.Errorf("make the workspace's Debian: %w", err)
	}
	l.Say("made the workspace's Debian in %.0f s", time.Since(begin).Seconds())
	return path, nil
}

// codename is Debian's release on this machine.
func codename() (string, error) {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", fmt.Errorf("find Debian's release: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if name, found := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); found {
			return strings.Trim(name, `"`), nil
		}
	}
	return "", errors.New("find Debian's release: /etc/os-release names none")
}
