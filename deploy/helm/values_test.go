package helm_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"config-server/internal/config"
	"config-server/internal/testkit"

	"github.com/google/go-cmp/cmp"
	goyaml "go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestValuesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		set  string
		want string
	}{
		{"two replicas on lock files", "replicaCount=2", "replicaCount above 1 needs ledgerLock mysql"},
		{"two replicas with SQLite", "replicaCount=2,ledgerLock=mysql,db.host=,state.persistence.enabled=true", "ledgerLock mysql needs db.host"},
		{"two replicas with SQLite on lock files", "replicaCount=2,db.host=,state.persistence.enabled=true", "replicaCount above 1 needs ledgerLock mysql"},
		{"named locks by another name", "replicaCount=2,env.LEDGER_LOCK=mysql", "replicaCount above 1 needs ledgerLock mysql"},
		{"an embedded database that a restart loses", "db.host=", "it needs state.persistence.enabled"},
		{"named locks without a database", "db.host=,ledgerLock=mysql", "ledgerLock mysql needs db.host"},
		{"Kerberos without farm nodes", "krb5.realm=FARM.EXAMPLE", "krb5.realm needs krb5.kdcHost"},
		{"replicas in words", "replicaCount=two", "at '/replicaCount': got string, want integer"},
		{"a number of replicas below 0", "replicaCount=-1", "at '/replicaCount': minimum"},
		{"a switch that is neither", "imageStore.enabled=maybe", "at '/imageStore/enabled': got string, want boolean"},
		{"a list that is none", "tolerations=all", "at '/tolerations': got string"},
		{"a group that is none", "nas=192.0.2.30", "at '/nas': got string, want object"},
		{"a number for a label", "nodeSelector.rack=4", "at '/nodeSelector/rack': got number, want string"},
		{"an unknown kind of lock", "ledgerLock=redis", "at '/ledgerLock': value must be one of 'local', 'mysql'"},
		{"a misspelt group", "servcie.port=80", "additional properties 'servcie' not allowed"},
		{"a misspelt key of a group", "service.prot=80", "at '/service': additional properties 'prot' not allowed"},
		{"a misspelt key of a new group", "networkPolicy.enable=true", "at '/networkPolicy': additional properties 'enable' not allowed"},
		{"a misspelt setting", "env.PROM_ULR=x", "at '/env': additional properties 'PROM_ULR' not allowed"},
		{"a setting that is a list", "env.RESERVED_NAMES[0]=x", "at '/env/RESERVED_NAMES': got array"},
		{"a password among the values", "db.password=x", "db.password: it is the key password of Secret config-server-db-secret"},
		{"a password among the settings", "env.DB_PASSWORD=x", "env.DB_PASSWORD: it is the key password of Secret config-server-db-secret"},
		{"a token among the settings", "env.API_TOKEN=x", "apiToken.existingSecret names"},
		{"a setting with a value of its own", "env.LEDGER_LOCK=mysql", "env.LEDGER_LOCK: set ledgerLock"},
		{"the same among the further variables", "extraEnv[0].name=DB_HOST,extraEnv[0].value=x", "extraEnv: DB_HOST: set db.host"},
		{"a password among the further variables", "extraEnv[0].name=DB_PASSWORD,extraEnv[0].value=x", "extraEnv: DB_PASSWORD: it is the key password"},
		{"a variable twice", "env.PROM_URL=x,extraEnv[0].name=PROM_URL,extraEnv[0].value=y", "extraEnv: PROM_URL stands under env too"},
		{"a variable without a name", "extraEnv[0].value=y", "at '/extraEnv/0': missing property 'name'"},
		{"the root directory as share", "nfs.userSharePath=/", "at '/nfs/userSharePath'"},
		{"a share path that climbs", "nfs.userSharePath=/volume1/../etc", "at '/nfs/userSharePath'"},
		{"a share path that is relative", "nfs.kubeSharePath=volume1", "at '/nfs/kubeSharePath'"},
		{"a URL as host", "nas.ssh.host=ssh://nas", "at '/nas/ssh/host'"},
		{"a key that is not in the Secret", "nas.ssh.keyPath=/root/.ssh/id_rsa", "at '/nas/ssh/keyPath'"},
		{"a farm node without an address", "farm.ssh.nodes[0].name=farm1", "at '/farm/ssh/nodes/0': missing property 'host'"},
		{"a NodePort outside the cluster's range", "service.nodePort=80", "at '/service/nodePort': minimum: got 80"},
		{"a port above the highest", "db.port=70000", "at '/db/port': maximum: got 70,000"},
		{"a port that is no number", "db.port=mysql", "at '/db/port': 'mysql' does not match pattern"},
		{"no port at all", "nas.ssh.port=null", "at '/nas/ssh': missing property 'port'"},
		{"a grace period below the drain", "terminationGracePeriodSeconds=55", "which are 55 s together"},
		{"a drain above the grace period", "env.DRAIN_TIMEOUT=1m30s", "which are 120 s together"},
		{"a reserve above the grace period", "env.UNDO_RESERVE=40.5", "which are 70.5 s together"},
		{"a wait above the grace period", "preStopSleepSeconds=20", "which are 70 s together"},
		{"a drain that is no time", "env.DRAIN_TIMEOUT=soon", `env.DRAIN_TIMEOUT is "soon": it has to be a number of seconds or a duration`},
		{"homes of its own that are nowhere", "env.HOME_VOLUME=self", "mount one at /home by extraVolumes and extraVolumeMounts"},
		{"a volume without a name", "extraVolumes[0].emptyDir.medium=Memory", "at '/extraVolumes/0': missing property 'name'"},
		{"a mount without a path", "extraVolumeMounts[0].name=homes", "at '/extraVolumeMounts/0': missing property 'mountPath'"},
		{"metrics read for longer than between two readings", "monitoring.serviceMonitor.interval=5s", "scrapeTimeout must not be above its interval"},
		{"an interval that is none", "monitoring.serviceMonitor.interval=often", "at '/monitoring/serviceMonitor/interval'"},
		{"an image tag that is none", "image.tag=a b", "at '/image/tag': 'a b' does not match pattern"},
		{"a tag in the image's name", "image.repository=dguailab/config-server:1.0", "at '/image/repository'"},
		{"a size that is none", "imageStore.size=big", "at '/imageStore/size'"},
		{"a disruption budget above the whole", "podDisruptionBudget.maxUnavailable=120%", "at '/podDisruptionBudget/maxUnavailable'"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, stderr, err := helm(t, "template", release, chart, "--values", valuesFile("farm"), "--set", tc.set)
			if err == nil {
				t.Fatal("it was rendered")
			}
			if !strings.Contains(stderr, tc.want) {
				t.Errorf("the refusal does not say %q:\n%s", tc.want, stderr)
			}
		})
	}
}

// A limit that is raised together with the grace period is not refused.
func TestALongerDrainIsAccepted(t *testing.T) {
	t.Parallel()
	got := render(t, "farm", "--set", "env.DRAIN_TIMEOUT=1m30s,env.UNDO_RESERVE=30,terminationGracePeriodSeconds=126")
	if !strings.Contains(got, "terminationGracePeriodSeconds: 126") {
		t.Errorf("rendered:\n%s", got)
	}
}

// The schema knows every key of values.yaml, so that neither is changed alone.
func TestSchemaKnowsEveryValue(t *testing.T) {
	t.Parallel()
	var values map[string]any
	decodeFile(t, "values.yaml", &values)
	var compare func(at string, values map[string]any, schema schemaNode)
	compare = func(at string, values map[string]any, schema schemaNode) {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			node, ok := schema.Properties[key]
			if !ok {
				t.Errorf("the schema does not know %s%s", at, key)
				continue
			}
			if child, isMap := values[key].(map[string]any); isMap && len(node.Properties) > 0 {
				compare(at+key+".", child, node)
			}
		}
	}
	compare("", values, readSchema(t))
}

// A key that nobody knows is refused wherever the chart itself reads keys.
func TestSchemaIsClosed(t *testing.T) {
	t.Parallel()
	var look func(at string, node schemaNode)
	look = func(at string, node schemaNode) {
		if len(node.Properties) > 0 && string(node.AdditionalProperties) != "false" {
			t.Errorf("the schema lets unknown keys pass at %s/", at)
		}
		for key, child := range node.Properties {
			look(at+"/"+key, child)
		}
		if node.Items != nil {
			look(at+"/*", *node.Items)
		}
	}
	look("", readSchema(t))
}

type schemaNode struct {
	Properties           map[string]schemaNode `json:"properties"`
	AdditionalProperties json.RawMessage       `json:"additionalProperties"`
	Items                *schemaNode           `json:"items"`
}

func readSchema(t *testing.T) schemaNode {
	t.Helper()
	var schema schemaNode
	decodeFile(t, "values.schema.json", &schema)
	return schema
}

// decodeFile reads a file of the chart.
func decodeFile(t *testing.T, name string, into any) {
	t.Helper()
	text := must(os.ReadFile(filepath.Join(chart, name)))(t)
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
}

// helm show values is where people read what a value means: each has a comment of its own.
func TestEveryValueIsExplained(t *testing.T) {
	t.Parallel()
	var document goyaml.Node
	if err := goyaml.Unmarshal(must(os.ReadFile(filepath.Join(chart, "values.yaml")))(t), &document); err != nil {
		t.Fatal(err)
	}
	var look func(at string, group *goyaml.Node)
	look = func(at string, group *goyaml.Node) {
		for i := 0; i+1 < len(group.Content); i += 2 {
			key, value := group.Content[i], group.Content[i+1]
			explained := key.HeadComment != ""
			if value.Kind == goyaml.MappingNode && len(value.Content) > 0 && !explained {
				look(at+key.Value+".", value)
				continue
			}
			if value.Kind == goyaml.MappingNode && len(value.Content) > 0 && !slices.Contains([]string{"resources", "controller.resources", "monitoring.dashboard.labels"}, at+key.Value) {
				look(at+key.Value+".", value)
			}
			if !explained {
				t.Errorf("values.yaml does not say what %s%s is", at, key.Value)
			}
		}
	}
	look("", document.Content[0])
}

// leaves are the values that somebody can set: everything in values.yaml that is no group of others.
func leaves(t *testing.T) []string {
	t.Helper()
	var values map[string]any
	decodeFile(t, "values.yaml", &values)
	var list []string
	var walk func(at string, group map[string]any)
	walk = func(at string, group map[string]any) {
		for key, value := range group {
			if child, isGroup := value.(map[string]any); isGroup && len(child) > 0 && at+key != "resources" && at+key != "controller.resources" && at+key != "monitoring.dashboard.labels" {
				walk(at+key+".", child)
				continue
			}
			list = append(list, at+key)
		}
	}
	walk("", values)
	slices.Sort(list)
	return list
}

// Each value can be set, and setting it changes what is rendered.
func TestEveryValueHasAnEffect(t *testing.T) {
	t.Parallel()
	const (
		kerberos = "krb5.realm=FARM.EXAMPLE,krb5.kdcHost=kdc,farm.ssh.user=keytab,farm.ssh.nodes[0].name=farm1,farm.ssh.nodes[0].host=192.0.2.11"
		kept     = "state.persistence.enabled=true"
		policy   = "networkPolicy.enabled=true"
		budget   = "podDisruptionBudget.enabled=true"
		monitor  = "monitoring.serviceMonitor.enabled=true"
		rule     = "monitoring.prometheusRule.enabled=true"
		board    = "monitoring.dashboard.enabled=true"
		team     = "controller.enabled=true"
	)
	cases := map[string]struct{ base, set, want string }{
		"image.repository":    {set: "image.repository=registry.example:5000/config-server", want: `image: "registry.example:5000/config-server:latest"`},
		"image.tag":           {set: "image.tag=1.0.0", want: `image: "dguailab/config-server:1.0.0"`},
		"image.pullPolicy":    {set: "image.pullPolicy=Never", want: "imagePullPolicy: Never"},
		"imagePullSecrets":    {set: "imagePullSecrets[0].name=login", want: "imagePullSecrets:\n        - name: login"},
		"replicaCount":        {base: "ledgerLock=mysql", set: "replicaCount=3", want: "replicas: 3"},
		"ledgerLock":          {set: "ledgerLock=mysql", want: "type: RollingUpdate"},
		"service.type":        {set: "service.type=ClusterIP", want: "type: ClusterIP"},
		"service.port":        {set: "service.port=8080", want: "port: 8080"},
		"service.targetPort":  {set: "service.targetPort=8080", want: `value: ":8080"`},
		"service.nodePort":    {set: "service.nodePort=30083", want: "nodePort: 30083"},
		"resources":           {set: "resources.limits.memory=1Gi", want: "memory: 1Gi"},
		"nfs.server":          {set: "nfs.server=nas", want: `server: "nas"`},
		"nfs.userSharePath":   {set: "nfs.userSharePath=/homes", want: `value: "/homes"`},
		"nfs.kubeSharePath":   {set: "nfs.kubeSharePath=/accounts", want: `path: "/accounts"`},
		"nas.ssh.host":        {set: "nas.ssh.host=nas", want: `value: "nas"`},
		"nas.ssh.port":        {set: "nas.ssh.port=2022", want: `value: "2022"`},
		"nas.ssh.user":        {set: "nas.ssh.user=homes", want: `value: "homes"`},
		"nas.ssh.keyPath":     {set: "nas.ssh.keyPath=/etc/nas-ssh/key", want: `value: "/etc/nas-ssh/key"`},
		"nas.ssh.knownHosts":  {set: "nas.ssh.knownHosts=nas ssh-ed25519 AAAA", want: "nas_known_hosts: |\n    nas ssh-ed25519 AAAA"},
		"farm.ssh.user":       {set: "farm.ssh.user=keytab", want: "name: FARM_SSH_USER\n              value: \"keytab\""},
		"farm.ssh.keyPath":    {base: "farm.ssh.user=keytab", set: "farm.ssh.keyPath=/etc/farm-ssh/key", want: `value: "/etc/farm-ssh/key"`},
		"farm.ssh.knownHosts": {base: "farm.ssh.user=keytab", set: "farm.ssh.knownHosts=farm1 ssh-ed25519 AAAA", want: "farm_known_hosts: |\n    farm1 ssh-ed25519 AAAA"},
		"farm.ssh.nodes":      {base: "farm.ssh.user=keytab", set: "farm.ssh.nodes[0].name=farm1,farm.ssh.nodes[0].host=192.0.2.11", want: `value: "[{\"host\":\"192.0.2.11\",\"name\":\"farm1\"}]"`},

		"nfs.kubeShareHostPath":        {set: "nfs.kubeShareHostPath=/mnt/kube", want: "hostPath:\n            path: \"/mnt/kube\""},
		"security.sudoAllowedCommands": {set: "security.sudoAllowedCommands={/usr/bin/apt,/usr/bin/dpkg}", want: `value: "/usr/bin/apt,/usr/bin/dpkg"`},
		"security.runAsUser":           {set: "security.runAsUser=1026", want: "runAsUser: 1026"},
		"security.runAsGroup":          {set: "security.runAsGroup=100", want: "runAsGroup: 100"},
		"security.supplementalGroups":  {set: "security.supplementalGroups={998}", want: "supplementalGroups:\n          - 998"},

		"krb5.realm":       {set: kerberos, want: `value: "FARM.EXAMPLE"`},
		"krb5.kdcHost":     {base: kerberos, set: "krb5.kdcHost=kdc2:88", want: "kdc = kdc2:88"},
		"config.namespace": {set: "config.namespace=farm", want: "namespace: farm"},
		"namespace":        {base: "config.namespace=", set: "namespace=farm", want: "namespace: farm"},
		"db.host":          {set: "db.host=mysql", want: `value: "mysql"`},
		"db.port":          {set: "db.port=3307", want: `value: "3307"`},
		"db.name":          {set: "db.name=ports", want: `value: "ports"`},
		"db.user":          {set: "db.user=ports", want: `value: "ports"`},
		"redis.host":       {set: "redis.host=redis", want: `value: "redis"`},
		"redis.port":       {base: "redis.host=redis", set: "redis.port=6380", want: `value: "6380"`},

		"nodeSelector":              {set: "nodeSelector.disk=ssd", want: "nodeSelector:\n        disk: ssd"},
		"tolerations":               {set: "tolerations[0].operator=Exists", want: "tolerations:\n        - operator: Exists"},
		"affinity":                  {set: "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key=metadata.name", want: "affinity:\n        nodeAffinity:"},
		"topologySpreadConstraints": {base: "ledgerLock=mysql,replicaCount=2", set: "topologySpreadConstraints[0].topologyKey=zone,topologySpreadConstraints[0].maxSkew=1", want: "topologyKey: zone"},
		"priorityClassName":         {set: "priorityClassName=high", want: "priorityClassName: high"},
		"env":                       {set: "env.PROM_URL=http://prometheus", want: "name: PROM_URL\n              value: \"http://prometheus\""},
		"extraEnv":                  {set: "extraEnv[0].name=TZ,extraEnv[0].value=Asia/Seoul", want: "name: TZ\n              value: Asia/Seoul"},
		"extraVolumes":              {set: "extraVolumes[0].name=homes,extraVolumes[0].persistentVolumeClaim.claimName=homes", want: "name: homes\n          persistentVolumeClaim:\n            claimName: homes"},
		"extraVolumeMounts":         {set: "extraVolumeMounts[0].name=homes,extraVolumeMounts[0].mountPath=/home", want: "- mountPath: /home\n              name: homes"},
		"apiToken.existingSecret":   {set: "apiToken.existingSecret=token", want: "name: token\n                  key: token"},

		"imageStore.enabled":                 {set: "imageStore.enabled=false", want: ""},
		"imageStore.claimName":               {set: "imageStore.claimName=images", want: "claimName: images"},
		"imageStore.create":                  {set: "imageStore.create=false", want: ""},
		"imageStore.size":                    {set: "imageStore.size=1Ti", want: "storage: 1Ti"},
		"imageStore.storageClassName":        {set: "imageStore.storageClassName=nfs", want: "storageClassName: nfs"},
		"imageStore.accessMode":              {set: "imageStore.accessMode=ReadWriteOnce", want: "accessModes: [ReadWriteOnce]"},
		"docker.socket":                      {set: "docker.socket=/run/docker.sock", want: "path: /run/docker.sock"},
		"state.persistence.enabled":          {set: kept, want: "claimName: " + release + "-state"},
		"state.persistence.existingClaim":    {base: kept, set: "state.persistence.existingClaim=ports", want: "claimName: ports"},
		"state.persistence.size":             {base: kept, set: "state.persistence.size=2Gi", want: "storage: 2Gi"},
		"state.persistence.storageClassName": {base: kept, set: "state.persistence.storageClassName=local", want: "storageClassName: local"},

		"rbac.clusterServices":               {set: "rbac.clusterServices=false", want: ""},
		"rbac.clusterPods":                   {set: "rbac.clusterPods=false", want: ""},
		"rbac.originalRights":                {set: "rbac.originalRights=false", want: ""},
		"terminationGracePeriodSeconds":      {set: "terminationGracePeriodSeconds=90", want: "terminationGracePeriodSeconds: 90"},
		"preStopSleepSeconds":                {set: "preStopSleepSeconds=3", want: "sleep:\n                seconds: 3"},
		"networkPolicy.enabled":              {set: policy, want: "kind: NetworkPolicy"},
		"networkPolicy.from":                 {base: policy, set: "networkPolicy.from[0].podSelector.matchLabels.app=admin", want: "from:\n        - podSelector:"},
		"networkPolicy.egress":               {base: policy, set: "networkPolicy.egress[0].ports[0].port=53", want: "- Egress"},
		"podDisruptionBudget.enabled":        {set: budget, want: "kind: PodDisruptionBudget"},
		"podDisruptionBudget.maxUnavailable": {base: budget, set: "podDisruptionBudget.maxUnavailable=50%", want: "maxUnavailable: 50%"},
		"podAnnotations":                     {set: "podAnnotations.owner=farm", want: "annotations:\n        owner: farm"},

		"controller.enabled":      {set: team, want: "args: [controller]"},
		"controller.replicaCount": {base: team, set: "controller.replicaCount=2", want: "replicas: 2"},
		"controller.resources":    {base: team, set: "controller.resources.limits.memory=1Gi", want: "memory: 1Gi"},

		"monitoring.serviceMonitor.enabled":       {set: monitor, want: "kind: ServiceMonitor"},
		"monitoring.serviceMonitor.labels":        {base: monitor, set: "monitoring.serviceMonitor.labels.release=monitoring", want: "release: monitoring"},
		"monitoring.serviceMonitor.interval":      {base: monitor, set: "monitoring.serviceMonitor.interval=1m", want: "interval: 1m"},
		"monitoring.serviceMonitor.scrapeTimeout": {base: monitor, set: "monitoring.serviceMonitor.scrapeTimeout=5s", want: "scrapeTimeout: 5s"},
		"monitoring.prometheusRule.enabled":       {set: rule, want: "kind: PrometheusRule"},
		"monitoring.prometheusRule.labels":        {base: rule, set: "monitoring.prometheusRule.labels.release=monitoring", want: "release: monitoring"},
		"monitoring.dashboard.enabled":            {set: board, want: release + "-dashboard"},
		"monitoring.dashboard.labels":             {base: board, set: "monitoring.dashboard.labels.team=farm", want: "team: farm"},
		"monitoring.dashboard.annotations":        {base: board, set: "monitoring.dashboard.annotations.grafana_folder=farm", want: "grafana_folder: farm"},
	}
	without := []string{"cleanup.image"} // it is there for values files of the original
	for _, leaf := range leaves(t) {
		tc, ok := cases[leaf]
		if slices.Contains(without, leaf) {
			continue
		}
		if !ok {
			t.Errorf("no case sets %s", leaf)
			continue
		}
		delete(cases, leaf)
		t.Run(leaf, func(t *testing.T) {
			t.Parallel()
			args := []string{"--kube-version", "1.35.0", "--set", tc.base}
			before := render(t, "farm", args...)
			after := render(t, "farm", append(args, "--set", tc.set)...)
			if before == after {
				t.Errorf("--set %s changes nothing", tc.set)
			}
			if !strings.Contains(after, tc.want) {
				t.Errorf("--set %s renders no %q:\n%s", tc.set, tc.want, cmp.Diff(before, after))
			}
		})
	}
	for leaf := range cases {
		t.Errorf("values.yaml has no %s", leaf)
	}
}

// A value that is taken out (null) is refused by name, or the service's default stands in for it and all is well.
func TestAValueMayBeMissing(t *testing.T) {
	t.Parallel()
	for _, leaf := range leaves(t) {
		t.Run(leaf, func(t *testing.T) {
			t.Parallel()
			// Without a database it takes the claim; that pair has a case of its own.
			stdout, stderr, err := helm(t, "template", release, chart, "--values", valuesFile("farm"), "--set", "state.persistence.enabled=true", "--set", leaf+"=null")
			key := leaf[strings.LastIndex(leaf, ".")+1:]
			if err != nil {
				if !strings.Contains(stderr, "missing property '"+key+"'") && !strings.Contains(stderr, "missing properties") {
					t.Errorf("the refusal does not name it:\n%s", stderr)
				}
				return
			}
			var environ []string
			for _, variable := range container(t, objects(t, stdout)).Env {
				environ = append(environ, variable.Name+"="+variable.Value)
			}
			environ = append(environ, "DB_PASSWORD=from-a-secret")
			if _, err := config.Load(environ); err != nil {
				t.Errorf("the service would not start:\n%v", err)
			}
		})
	}
}

// Every variable that the service reads can be said through the chart, under env or by the value that stands for it, and
// reaches the service once, as it was said.
func TestEverySettingCanBeSaid(t *testing.T) {
	t.Parallel()
	// The schema lists under env what the service reads; -update writes the list.
	path := filepath.Join(chart, "values.schema.json")
	var settings []string
	for _, name := range config.Names() {
		settings = append(settings, fmt.Sprintf("        %q: {\"$ref\": \"#/definitions/setting\"}", name))
	}
	listed := regexp.MustCompile(`(?s)("env": \{.*?"properties": \{\n).*?(\n      \})`)
	schema := listed.ReplaceAllString(string(must(os.ReadFile(path))(t)), "${1}"+strings.ReplaceAll(strings.Join(settings, ",\n"), "$", "$$")+"${2}")
	testkit.Golden(t, path, []byte(schema))
	// By the value, or the Secret, that stands for them.
	elsewhere := map[string]string{
		"NAMESPACE": "farm", "LEDGER_LOCK": "mysql", "LISTEN_ADDR": ":8080", "STATE_DIR": "/var/lib/config-server",
		"NFS_SERVER": "nfs", "NFS_USER_SHARE_PATH": "/homes",
		"NAS_SSH_HOST": "nas", "NAS_SSH_PORT": "2022", "NAS_SSH_USER": "homes", "NAS_SSH_KEY_PATH": "/etc/nas-ssh/key",
		"NAS_SSH_KNOWN_HOSTS": "/etc/config-server/nas_known_hosts",
		"FARM_SSH_USER":       "keytab", "FARM_SSH_KEY_PATH": "/etc/farm-ssh/key", "FARM_SSH_KNOWN_HOSTS": "/etc/config-server/farm_known_hosts",
		"FARM_NODES_JSON": `[{"host":"192.0.2.11","name":"farm1"}]`, "SUDO_ALLOWED_COMMANDS": "/usr/bin/apt",
		"DB_HOST": "mysql", "DB_PORT": "3307", "DB_NAME": "ports", "DB_USER": "owner", "REDIS_HOST": "redis", "REDIS_PORT": "6380",
		"KRB5_REALM": "FARM.EXAMPLE", "KRB5_KDC_HOST": "kdc",
		"DB_PASSWORD": "Secret config-server-db-secret password", "KRB5_ADMIN_PRINCIPAL": "Secret config-server-krb5-secret principal",
		"KRB5_ADMIN_PASSWORD": "Secret config-server-krb5-secret password", "API_TOKEN": "Secret token token",
	}
	values := map[string]any{
		"config": map[string]any{"namespace": "farm"}, "ledgerLock": "mysql", "service": map[string]any{"targetPort": 8080},
		"nfs":      map[string]any{"server": "nfs", "kubeSharePath": "/accounts", "userSharePath": "/homes"},
		"nas":      map[string]any{"ssh": map[string]any{"host": "nas", "port": 2022, "user": "homes", "keyPath": "/etc/nas-ssh/key", "knownHosts": "nas ssh-ed25519 AAAA"}},
		"farm":     map[string]any{"ssh": map[string]any{"user": "keytab", "keyPath": "/etc/farm-ssh/key", "knownHosts": "farm1 ssh-ed25519 AAAA", "nodes": []any{map[string]any{"name": "farm1", "host": "192.0.2.11"}}}},
		"security": map[string]any{"sudoAllowedCommands": "/usr/bin/apt"},
		"db":       map[string]any{"host": "mysql", "port": 3307, "name": "ports", "user": "owner"},
		"redis":    map[string]any{"host": "redis", "port": 6380},
		"krb5":     map[string]any{"realm": "FARM.EXAMPLE", "kdcHost": "kdc"},
		"apiToken": map[string]any{"existingSecret": "token"},
	}
	want, env := maps.Clone(elsewhere), map[string]any{}
	for _, name := range config.Names() {
		if _, ok := elsewhere[name]; !ok {
			env[name], want[name] = "said-"+name, "said-"+name
		}
	}
	// Two of them the chart reads itself.
	env["DRAIN_TIMEOUT"], want["DRAIN_TIMEOUT"] = 20, "20"
	env["UNDO_RESERVE"], want["UNDO_RESERVE"] = "20s", "20s"
	values["env"] = env
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, must(yaml.Marshal(values))(t), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, err := helm(t, "template", release, chart, "--values", file)
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, stderr)
	}
	got := map[string]string{}
	list := objects(t, stdout)
	for _, variable := range container(t, list).Env {
		if _, twice := got[variable.Name]; twice {
			t.Errorf("%s reaches the service twice", variable.Name)
		}
		got[variable.Name] = variable.Value
		if variable.ValueFrom != nil {
			ref := variable.ValueFrom.SecretKeyRef
			got[variable.Name] = fmt.Sprintf("Secret %s %s", ref.Name, ref.Key)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the service's environment (-want +got):\n%s", diff)
	}
	// The test's pod looks at the same farm.
	if diff := cmp.Diff(container(t, list).Env, the[*corev1.Pod](t, list).Spec.Containers[0].Env); diff != "" {
		t.Errorf("the environment of helm test's pod differs (-service +test):\n%s", diff)
	}
	// What is said elsewhere is refused under env, with the place.
	for name := range elsewhere {
		t.Run("env."+name, func(t *testing.T) {
			t.Parallel()
			_, stderr, err := helm(t, "template", release, chart, "--values", valuesFile("farm"), "--set", "env."+name+"=x")
			if err == nil || !strings.Contains(stderr, "env."+name+": ") {
				t.Errorf("it is not refused with the place to say it: %v\n%s", err, stderr)
			}
		})
	}
}

// A change of a mounted file starts new pods, because the file would not follow it; a new version of the chart alone
// does not.
func TestWhatStartsNewPods(t *testing.T) {
	t.Parallel()
	template := func(chart string, args ...string) string {
		stdout, stderr, err := helm(t, append([]string{"template", release, chart, "--values", valuesFile("everything"), "--kube-version", "1.35.0"}, args...)...)
		if err != nil {
			t.Fatalf("helm template: %v\n%s", err, stderr)
		}
		return text(t, the[*appsv1.Deployment](t, objects(t, stdout)).Spec.Template)
	}
	before := template(chart)
	for _, set := range []string{"nas.ssh.knownHosts=nas ssh-ed25519 BBBB", "farm.ssh.knownHosts=farm1 ssh-ed25519 BBBB", "krb5.kdcHost=kdc2", "env.LOG_LEVEL=info"} {
		if template(chart, "--set", set) == before {
			t.Errorf("--set %s leaves the pods as they are", set)
		}
	}
	next := filepath.Join(t.TempDir(), "chart")
	if err := os.CopyFS(next, os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	about := must(os.ReadFile(filepath.Join(next, "Chart.yaml")))(t)
	changed := strings.Replace(string(about), "\nversion: ", "\nversion: 9", 1)
	if err := os.WriteFile(filepath.Join(next, "Chart.yaml"), []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, template(next)); diff != "" {
		t.Errorf("another version of the chart changes the pods (-before +after):\n%s", diff)
	}
}
