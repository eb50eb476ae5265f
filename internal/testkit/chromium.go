package testkit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ChromiumBrowser is a running Chromium without a window.
type ChromiumBrowser struct {
	// DevTools is the address by which it is driven, ws://127.0.0.1:...
	DevTools string

	proc *process
}

// Chromium starts a browser for this test, with a profile of its own. It resolves no name and is
// driven from 127.0.0.1 alone.
func Chromium(t testing.TB) *ChromiumBrowser {
	t.Helper()
	Need(t, "Chromium", "chromium", "chromium")
	program, err := lookProgram("chromium")
	if err != nil {
		t.Fatal(err)
	}
	dir := testPartDir(t, "chromium")
	b := new(ChromiumBrowser)
	b.proc = &process{
		name: "chromium", path: program, dir: dir, log: filepath.Join(dir, "chromium.log"),
		env: []string{"HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "XDG_CACHE_HOME=" + dir},
		args: []string{
			"--headless=new", "--remote-debugging-address=127.0.0.1", "--remote-debugging-port=0", "--user-data-dir=" + filepath.Join(dir, "profile"),
			"--no-sandbox", // its sandbox refuses root, and the pages are our own
			"--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb", "--font-render-hinting=none",
			"--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
			"--no-first-run", "--no-default-browser-check", "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
			"--disable-extensions", "--disable-sync", "--metrics-recording-only", "--password-store=basic", "--use-mock-keychain",
			"--lang=en-US", "about:blank",
		},
		ready: func(context.Context) error {
			return b.findDevTools(filepath.Join(dir, "profile", "DevToolsActivePort"))
		},
	}
	manage(t, b.proc)
	return b
}

// findDevTools reads the port and the path that the browser writes down once it listens.
func (b *ChromiumBrowser) findDevTools(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	lines := strings.Fields(string(text))
	if len(lines) != 2 {
		return fmt.Errorf("%s is not complete", filepath.Base(file))
	}
	b.DevTools = "ws://127.0.0.1:" + lines[0] + lines[1]
	return nil
}
