package adminbe

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
)

func TestDecodeTheUsualAnswer(t *testing.T) {
	t.Parallel()
	body := `{"username":"kim","image":"dguailab/decs:1.0","groups":[{"gid":20005,"name":"ailab"}],"volume_size":10,
		"gpu_nodes":[{"node_name":"FARM5","num_gpu":2,"cpu_limit":"4000m","memory_limit":"8192Mi"},{"node_name":"farm6","num_gpu":1,"cpu_limit":"2","memory_limit":"4Gi"}],
		"additional_ports":[{"internal_port":6006,"usage_purpose":"tensorboard"},{"internal_port":7000,"usage_purpose":"내 웹 서버"}],
		"passwd_base64":"c2VjcmV0","unknown":{"a":[1]}}`
	want := farm.UserConfig{
		Image:    "dguailab/decs:1.0",
		GroupIDs: []farm.ID{20005},
		Nodes: []farm.GPUNode{
			{Name: "FARM5", NumGPU: 2, CPULimit: "4000m", MemoryLimit: "8192Mi"},
			{Name: "farm6", NumGPU: 1, CPULimit: "2", MemoryLimit: "4Gi"},
		},
		Ports: []farm.PortWant{{Internal: 6006, Purpose: "tensorboard"}, {Internal: 7000, Purpose: "내 웹 서버"}},
	}
	got, err := decode([]byte(body))
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestDecodeOddForms has one field each, beside an image.
func TestDecodeOddForms(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		fields string
		want   farm.UserConfig // without the image
	}{
		"nothing else":       {``, farm.UserConfig{}},
		"null lists":         {`,"groups":null,"gpu_nodes":null,"additional_ports":null,"gid":null`, farm.UserConfig{}},
		"empty lists":        {`,"groups":[],"gpu_nodes":[],"additional_ports":[]`, farm.UserConfig{}},
		"status that is 200": {`,"status":200`, farm.UserConfig{}},

		"gid in numeric strings":        {`,"groups":[{"gid":"20005"},{"gid":" 20006 "}]`, farm.UserConfig{GroupIDs: []farm.ID{20005, 20006}}},
		"gid with a fraction of zeros":  {`,"groups":[{"gid":20005.0},{"gid":"20006.00"},{"gid":2.0007e4}]`, farm.UserConfig{GroupIDs: []farm.ID{20005, 20006, 20007}}},
		"gid lists":                     {`,"groups":[{"gid":[20005,"20006"]},{"gid":20007}]`, farm.UserConfig{GroupIDs: []farm.ID{20005, 20006, 20007}}},
		"gids twice":                    {`,"groups":[{"gid":5001},{"gid":"5001"},{"gid":[5001,5002]}]`, farm.UserConfig{GroupIDs: []farm.ID{5001, 5002}}},
		"gids that are none":            {`,"groups":[{"gid":null},{"gid":-1},{"gid":1.5},{"gid":true},{"gid":"x"},{"gid":{}},{},7,null,"a",{"gid":4294967296},{"gid":1e300},{"gid":1e999},{"gid":20005}]`, farm.UserConfig{GroupIDs: []farm.ID{20005}}},
		"older gid, a number":           {`,"gid":20005`, farm.UserConfig{GroupIDs: []farm.ID{20005}}},
		"older gid, a list":             {`,"gid":[20006,"20005"]`, farm.UserConfig{GroupIDs: []farm.ID{20006, 20005}}},
		"older gid beside empty groups": {`,"groups":[],"gid":20005`, farm.UserConfig{GroupIDs: []farm.ID{20005}}},
		"older gid beside newer ones":   {`,"groups":[{"gid":20006}],"gid":20005`, farm.UserConfig{GroupIDs: []farm.ID{20006}}},

		"nodes that are none": {`,"gpu_nodes":[null,3,"farm5",[],{},{"node_name":null},{"node_name":""},{"node_name":"  "},{"node_name":5}]`, farm.UserConfig{}},
		"node name trimmed":   {`,"gpu_nodes":[{"node_name":" Farm5\n"}]`, farm.UserConfig{Nodes: []farm.GPUNode{{Name: "Farm5"}}}},
		"node order is kept":  {`,"gpu_nodes":[{"node_name":"z"},{"node_name":"a"},{"node_name":"m"}]`, farm.UserConfig{Nodes: []farm.GPUNode{{Name: "z"}, {Name: "a"}, {Name: "m"}}}},
		"num_gpu forms": {
			`,"gpu_nodes":[{"node_name":"a","num_gpu":"2"},{"node_name":"b","num_gpu":null},{"node_name":"c","num_gpu":""},{"node_name":"d","num_gpu":-1},{"node_name":"e","num_gpu":64},{"node_name":"f","num_gpu":1.0}]`,
			farm.UserConfig{Nodes: []farm.GPUNode{{Name: "a", NumGPU: 2}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "e", NumGPU: 64}, {Name: "f", NumGPU: 1}}},
		},
		"limit forms": {
			`,"gpu_nodes":[{"node_name":"a","cpu_limit":null,"memory_limit":null},{"node_name":"b","cpu_limit":"","memory_limit":" "},{"node_name":"c","cpu_limit":4,"memory_limit":8589934592},{"node_name":"d","cpu_limit":0.5,"memory_limit":" 1e9 "},{"node_name":"e","cpu_limit":"0","memory_limit":"0Mi"}]`,
			farm.UserConfig{Nodes: []farm.GPUNode{{Name: "a"}, {Name: "b"}, {Name: "c", CPULimit: "4", MemoryLimit: "8589934592"}, {Name: "d", CPULimit: "0.5", MemoryLimit: "1e9"}, {Name: "e"}}},
		},
		"a bad entry without a name is passed over": {`,"gpu_nodes":[{"num_gpu":"many","cpu_limit":"lots"}]`, farm.UserConfig{}},

		"ports in strings":    {`,"additional_ports":[{"internal_port":"6006","usage_purpose":"a"},{"internal_port":65535.0,"usage_purpose":"b"}]`, farm.UserConfig{Ports: []farm.PortWant{{Internal: 6006, Purpose: "a"}, {Internal: 65535, Purpose: "b"}}}},
		"entries that are no": {`,"additional_ports":[null,6006,"6006",[],{"internal_port":1}]`, farm.UserConfig{Ports: []farm.PortWant{{Internal: 1, Purpose: "custom"}}}},
		"purposes that are none": {
			`,"additional_ports":[{"internal_port":1},{"internal_port":2,"usage_purpose":null},{"internal_port":3,"usage_purpose":""},{"internal_port":4,"usage_purpose":" \t"},{"internal_port":5,"usage_purpose":{}},{"internal_port":6,"usage_purpose":[1]}]`,
			farm.UserConfig{Ports: []farm.PortWant{{Internal: 1, Purpose: "custom"}, {Internal: 2, Purpose: "custom"}, {Internal: 3, Purpose: "custom"}, {Internal: 4, Purpose: "custom"}, {Internal: 5, Purpose: "custom"}, {Internal: 6, Purpose: "custom"}}},
		},
		"purposes keep their text": {
			`,"additional_ports":[{"internal_port":1,"usage_purpose":" Web UI/관리 "},{"internal_port":2,"usage_purpose":8080},{"internal_port":3,"usage_purpose":true}]`,
			farm.UserConfig{Ports: []farm.PortWant{{Internal: 1, Purpose: " Web UI/관리 "}, {Internal: 2, Purpose: "8080"}, {Internal: 3, Purpose: "true"}}},
		},
		"a GPU option and a template":        {`,"gpu_option":" nvidia.com/gpu/NVIDIA-A100 ","pod_template":"team\n"`, farm.UserConfig{GPUOption: "nvidia.com/gpu/NVIDIA-A100", PodTemplate: "team"}},
		"options that are none":              {`,"gpu_option":null,"pod_template":"  "`, farm.UserConfig{}},
		"a port twice is left to the caller": {`,"additional_ports":[{"internal_port":22},{"internal_port":22}]`, farm.UserConfig{Ports: []farm.PortWant{{Internal: 22, Purpose: "custom"}, {Internal: 22, Purpose: "custom"}}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.want.Image = "i"
			got, err := decode([]byte(`{"image":" i "` + c.fields + `}`))
			if err != nil {
				t.Fatalf("decode: %v", err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestDecodeRefusesAndNamesTheField(t *testing.T) {
	t.Parallel()
	node := func(field string) string {
		return `{"image":"i","gpu_nodes":[{"node_name":"a"},{"node_name":"b",` + field + `}]}`
	}
	port := func(field string) string {
		return `{"image":"i","additional_ports":[{"internal_port":1},{` + field + `}]}`
	}
	cases := []struct{ name, body, names string }{
		{"nothing", ``, "not JSON"},
		{"HTML", `<html>`, "not JSON"},
		{"two values", `{"image":"i"} {}`, "not JSON"},
		{"cut off", `{"image":"i"`, "not JSON"},
		{"deep", strings.Repeat("[", 20000), "not JSON"},
		{"list", `[]`, "not an object"},
		{"null", `null`, "not an object"},
		{"text", `"x"`, "not an object"},
		{"no image", `{}`, "image"},
		{"other case", `{"Image":"i"}`, "image"},
		{"null image", `{"image":null}`, "image"},
		{"blank image", `{"image":" "}`, "image"},
		{"image a number", `{"image":5}`, "image"},
		{"image with a space", `{"image":"a b"}`, "image"},
		{"image with a line end", `{"image":"a\nb"}`, "image"},
		{"image in Korean", `{"image":"이미지"}`, "image"},
		{"endless image", `{"image":"` + strings.Repeat("a", 513) + `"}`, "image"},
		{"status 500", `{"status":500}`, "image"},
		{"groups an object", `{"image":"i","groups":{}}`, "groups"},
		{"nodes a text", `{"image":"i","gpu_nodes":"farm5"}`, "gpu_nodes"},
		{"ports a number", `{"image":"i","additional_ports":6006}`, "additional_ports"},
		{"num_gpu too large", node(`"num_gpu":65`), "gpu_nodes[1].num_gpu"},
		{"num_gpu in words", node(`"num_gpu":"two"`), "gpu_nodes[1].num_gpu"},
		{"num_gpu a fraction", node(`"num_gpu":1.5`), "gpu_nodes[1].num_gpu"},
		{"num_gpu a truth value", node(`"num_gpu":true`), "gpu_nodes[1].num_gpu"},
		{"cpu_limit in words", node(`"cpu_limit":"lots"`), "gpu_nodes[1].cpu_limit"},
		{"cpu_limit negative", node(`"cpu_limit":"-1"`), "gpu_nodes[1].cpu_limit"},
		{"cpu_limit a list", node(`"cpu_limit":[1]`), "gpu_nodes[1].cpu_limit"},
		{"cpu_limit with two points", node(`"cpu_limit":"1.2.3"`), "gpu_nodes[1].cpu_limit"},
		{"memory_limit of an unknown unit", node(`"memory_limit":"8GB"`), "gpu_nodes[1].memory_limit"},
		{"memory_limit beyond reason", node(`"memory_limit":"1e999999999"`), "gpu_nodes[1].memory_limit"},
		{"port missing", port(`"usage_purpose":"x"`), "additional_ports[1].internal_port"},
		{"port null", port(`"internal_port":null`), "additional_ports[1].internal_port"},
		{"port empty", port(`"internal_port":""`), "additional_ports[1].internal_port"},
		{"port in words", port(`"internal_port":"ssh"`), "additional_ports[1].internal_port"},
		{"port 0", port(`"internal_port":0`), "additional_ports[1].internal_port"},
		{"port negative", port(`"internal_port":-22`), "additional_ports[1].internal_port"},
		{"port 65536", port(`"internal_port":"65536"`), "additional_ports[1].internal_port"},
		{"port a fraction", port(`"internal_port":22.5`), "additional_ports[1].internal_port"},
		{"port with trailing text", port(`"internal_port":"22/tcp"`), "additional_ports[1].internal_port"},
		{"port hexadecimal", port(`"internal_port":"0x16"`), "additional_ports[1].internal_port"},
		{"gpu_option a number", `{"image":"i","gpu_option":1}`, "gpu_option"},
		{"gpu_option with a space", `{"image":"i","gpu_option":"a b"}`, "gpu_option"},
		{"gpu_option without end", `{"image":"i","gpu_option":"` + strings.Repeat("a", 401) + `"}`, "gpu_option"},
		{"pod_template a list", `{"image":"i","pod_template":["team"]}`, "pod_template"},
		{"pod_template in Korean", `{"image":"i","pod_template":"틀"}`, "pod_template"},
		{"port a list", port(`"internal_port":[22]`), "additional_ports[1].internal_port"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			config, err := decode([]byte(c.body))
			if err == nil || !strings.Contains(err.Error(), c.names) {
				t.Errorf("error %v, want one that names %s", err, c.names)
			}
			if diff := cmp.Diff(farm.UserConfig{}, config); diff != "" {
				t.Errorf("half a configuration came with the error:\n%s", diff)
			}
		})
	}
}

func TestDecodeSoftNotFound(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"status":404}`, `{"status":"404","image":"i"}`, `{"status":404.0}`} {
		if _, err := decode([]byte(body)); !errors.Is(err, errUnknownUser) {
			t.Errorf("%s: error %v, want errUnknownUser", body, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"image":"i","groups":[{"gid":"5"}],"gpu_nodes":[{"node_name":"a","num_gpu":"2","cpu_limit":4,"memory_limit":"1Gi"}],"additional_ports":[{"internal_port":"6006","usage_purpose":null}],"gid":[1]}`,
		`{"status":404}`, `<html>`, `[]`, `{"image":"i","gpu_nodes":[{"node_name":"a","memory_limit":"1e99"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		config, err := decode(body)
		if err != nil {
			if len(err.Error()) > 100 {
				t.Errorf("a long error, with something out of the answer in it: %v", err)
			}
			return
		}
		if config.Image == "" || strings.ContainsAny(config.Image, " \t\r\n\x00") {
			t.Errorf("image %q", config.Image)
		}
		for _, node := range config.Nodes {
			if node.Name == "" || node.NumGPU < 0 || node.NumGPU > maxGPUs {
				t.Errorf("node %+v", node)
			}
		}
		for _, want := range config.Ports {
			if want.Internal < 1 || want.Internal > 65535 || want.Purpose == "" {
				t.Errorf("port %+v", want)
			}
		}
		for _, id := range config.GroupIDs {
			if id < 0 {
				t.Errorf("gid %d", id)
			}
		}
	})
}
