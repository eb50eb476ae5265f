package recipe_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"config-server/deploy/image/internal/recipe"
)

const dockerfile = "../../../../Dockerfile"

// The chart, the documents and nodes that run the image count on these, however it was built.
func TestTheDockerfile(t *testing.T) {
	t.Parallel()
	for stage, title := range map[string]string{"plain": "config-server", "tools": "config-server (tools)"} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			file, err := os.Open(dockerfile)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = file.Close() }()
			config, err := recipe.Config(file, stage, map[string]string{"VERSION": "v1.2.3"})
			if err != nil {
				t.Fatal(err)
			}
			if config.User != "65532:65532" || config.WorkingDir != "/var/lib/config-server" || config.StopSignal != "SIGTERM" {
				t.Errorf("user %s, folder %s, signal %s", config.User, config.WorkingDir, config.StopSignal)
			}
			if !slices.Equal(config.Entrypoint, []string{"/usr/local/bin/config-server"}) || !slices.Equal(config.Cmd, []string{"serve"}) {
				t.Errorf("it runs %q %q", config.Entrypoint, config.Cmd)
			}
			if ports := slices.Collect(maps.Keys(config.ExposedPorts)); !slices.Equal(ports, []string{"8000/tcp"}) {
				t.Errorf("ports %q", ports)
			}
			if !slices.Contains(config.Env, "STATE_DIR=/var/lib/config-server") {
				t.Errorf("environment %q", config.Env)
			}
			if config.Labels["org.opencontainers.image.title"] != title || config.Labels["org.opencontainers.image.version"] != "v1.2.3" {
				t.Errorf("labels %q", config.Labels)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ lines, says string }{
		"everything that is known":      {lines: "ARG VERSION=no\nENV A=1 B=\"2 $VERSION\"\nLABEL c=$A\nCOPY a b\nRUN true\nWORKDIR /$A\nUSER 1\nEXPOSE 80\nSTOPSIGNAL SIGINT\nENTRYPOINT [\"/a\"]\nCMD [\"b\"]"},
		"an instruction not known":      {lines: "HEALTHCHECK CMD true", says: "HEALTHCHECK"},
		"an entrypoint for a shell":     {lines: "ENTRYPOINT /a b", says: "brackets"},
		"a command for a shell":         {lines: "CMD /a b", says: "brackets"},
		"an argument that is not given": {lines: "ARG OTHER", says: "OTHER"},
		"a variable that is not set":    {lines: "LABEL a=$NOBODY", says: "NOBODY"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, err := recipe.Config(strings.NewReader("FROM scratch AS x\n"+test.lines+"\n"), "x", map[string]string{"VERSION": "v1"})
			if test.says != "" {
				if err == nil || !strings.Contains(err.Error(), test.says) {
					t.Errorf("Config: %v, want an error about %s", err, test.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			_, port := config.ExposedPorts["80/tcp"]
			if !slices.Equal(config.Env, []string{"A=1", "B=2 v1"}) || config.Labels["c"] != "1" || config.WorkingDir != "/1" || config.User != "1" || !port ||
				config.StopSignal != "SIGINT" || config.Entrypoint[0] != "/a" || config.Cmd[0] != "b" {
				t.Errorf("it is %+v", config)
			}
		})
	}
}

func TestConfigOfAStageThatIsNotThereOrBuildsOnAnother(t *testing.T) {
	t.Parallel()
	text := "FROM scratch AS below\nUSER 1\nFROM below AS x\nUSER 2\n"
	for _, stage := range []string{"nowhere", "x"} {
		if _, err := recipe.Config(strings.NewReader(text), stage, nil); err == nil {
			t.Errorf("stage %s was read", stage)
		}
	}
}
