package app_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/farm"
)

// crashRow is a row of the NodePort table.
type crashRow struct {
	user, pod, node string
	internal, port  int
	purpose         string
}

// picture is one look at everything.
type picture struct {
	share    share
	homes    map[string]string
	pods     []corev1.Pod
	services []corev1.Service
	rows     []crashRow
	gpus     crashGPUs
}

func (f *crashFarm) look(ctx context.Context) (picture, error) {
	var p picture
	var err error
	if p.share, err = f.readShare(); err != nil {
		return p, err
	}
	if p.homes, err = f.homes(); err != nil {
		return p, err
	}
	core := f.kube.CoreV1()
	pods, err := core.Pods(f.world.Cluster.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return p, err
	}
	services, err := core.Services(f.world.Cluster.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return p, err
	}
	p.pods, p.services = pods.Items, services.Items
	if p.rows, err = f.readRows(ctx); err != nil {
		return p, err
	}
	p.gpus, err = f.readGPUs(ctx)
	return p, err
}

func (f *crashFarm) readRows(ctx context.Context) ([]crashRow, error) {
	result, err := f.db.QueryContext(ctx, "SELECT username, pod_name, node_name, internal_port, node_port, purpose FROM nodeport_allocations ORDER BY node_port")
	if err != nil {
		return nil, err
	}
	defer func() { _ = result.Close() }()
	var rows []crashRow
	for result.Next() {
		var r crashRow
		if err := result.Scan(&r.user, &r.pod, &r.node, &r.internal, &r.port, &r.purpose); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, result.Err()
}

// facts is what there is of one name, sorted, without what differs from run to run.
func (f *crashFarm) facts(t *testing.T, name string) []string {
	t.Helper()
	p, err := f.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	facts := p.accountFacts(name)
	for _, pod := range p.pods {
		if pod.Labels[farm.LabelUser] == name {
			facts = append(facts, p.podFact(pod))
		}
	}
	if f.krb5 != nil {
		more, _, err := f.krb5(t.Context(), p, name)
		if err != nil {
			t.Fatal(err)
		}
		facts = append(facts, more...)
	}
	for i := range facts {
		facts[i] = strings.ReplaceAll(facts[i], name, "NAME")
	}
	slices.Sort(facts)
	return facts
}

func (p picture) accountFacts(name string) []string {
	var facts []string
	a, exists := p.share.passwd[name]
	if exists {
		facts = append(facts, fmt.Sprintf("account, uid is gid: %v", a.uid == a.gid))
	}
	for _, group := range []string{name, crashGroup(name)} {
		if gid, there := p.share.group[group]; there {
			facts = append(facts, fmt.Sprintf("group %s of %q, private: %v", group, p.share.members[group], exists && gid == a.gid))
		}
	}
	if slices.Contains(p.share.members[crashTeam], name) {
		facts = append(facts, "member of "+crashTeam)
	}
	for _, entry := range p.share.shadow {
		if entry == name {
			facts = append(facts, "password")
		}
	}
	if policy, there := p.share.sudoers[name]; there {
		facts = append(facts, "sudo policy "+policy)
	}
	if home, there := p.homes[name]; there {
		facts = append(facts, "home of "+strings.Replace(home, fmt.Sprint(a.uid), "its owner", 1))
	}
	return facts
}

// podFact is a workspace: its node and its ports, as Services and rows have them.
func (p picture) podFact(pod corev1.Pod) string {
	var services, rows []string
	for _, s := range p.services {
		if s.Labels[farm.LabelPod] == pod.Name {
			for _, port := range s.Spec.Ports {
				services = append(services, fmt.Sprintf("%d %s", port.TargetPort.IntValue(), s.Labels[farm.LabelPurpose]))
			}
		}
	}
	for _, r := range p.rows {
		if r.pod == pod.Name {
			rows = append(rows, fmt.Sprintf("%d %s on %s", r.internal, r.purpose, r.node))
		}
	}
	slices.Sort(services)
	slices.Sort(rows)
	fact := fmt.Sprintf("pod on %s, Services %q, rows %q", pod.Spec.NodeName, services, rows)
	if n := len(p.gpus[pod.Name]); n > 0 {
		fact += fmt.Sprintf(", %d GPUs", n)
	}
	return fact
}

// strays lists what belongs to nothing, or is half of something, save what was told already.
func (f *crashFarm) strays(ctx context.Context) ([]string, error) {
	p, err := f.look(ctx)
	if err != nil {
		return nil, err
	}
	records, err := f.records(ctx)
	if err != nil {
		return nil, err
	}
	locks, err := f.lockFiles()
	if err != nil {
		return nil, err
	}
	all := slices.Concat(p.share.strays, records, locks, p.accountStrays(), p.workspaceStrays())
	if f.krb5 != nil {
		_, more, err := f.krb5(ctx, p, "")
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	} else {
		secrets, err := f.kube.CoreV1().Secrets(f.world.Cluster.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, secret := range secrets.Items {
			all = append(all, "Secret "+secret.Name)
		}
	}
	return slices.DeleteFunc(all, func(stray string) bool { return f.known[stray] }), nil
}

// records lists the operation records that are not ended.
func (f *crashFarm) records(ctx context.Context) ([]string, error) {
	result, err := f.db.QueryContext(ctx, "SELECT kind, stage, pod_name FROM config_server_operations")
	if err != nil {
		return nil, err
	}
	defer func() { _ = result.Close() }()
	var records []string
	for result.Next() {
		var kind, stage, pod string
		if err := result.Scan(&kind, &stage, &pod); err != nil {
			return nil, err
		}
		records = append(records, fmt.Sprintf("record of %s %s, stage %s", kind, pod, stage))
	}
	return records, result.Err()
}

// accountStrays: an account stands in passwd, group and shadow and has a home and a policy, or
// nothing of it is there.
func (p picture) accountStrays() []string {
	var strays []string
	passwords := map[string]int{}
	for _, name := range p.share.shadow {
		passwords[name]++
	}
	for _, name := range slices.Sorted(maps.Keys(p.share.passwd)) {
		a := p.share.passwd[name]
		switch {
		case passwords[name] != 1:
			strays = append(strays, fmt.Sprintf("account %s with %d lines in shadow", name, passwords[name]))
		case !a.managed():
		case p.share.group[name] != a.gid:
			strays = append(strays, "account "+name+" without its group")
		case p.share.sudoers[name] == "":
			strays = append(strays, "account "+name+" without its sudo policy")
		case p.homes[name] != fmt.Sprintf("%d -rwx------", a.uid):
			strays = append(strays, fmt.Sprintf("account %s (uid %d) whose home is %q", name, a.uid, p.homes[name]))
		}
	}
	absent := func(what string, names []string) {
		slices.Sort(names)
		for _, name := range names {
			if _, there := p.share.passwd[name]; name != "" && !there {
				strays = append(strays, what+" "+name+" without account")
			}
		}
	}
	absent("password of", p.share.shadow)
	absent("sudo policy of", slices.Collect(maps.Keys(p.share.sudoers)))
	absent("home of", slices.Collect(maps.Keys(p.homes)))
	for group, members := range p.share.members {
		absent("member of "+group+":", members)
	}
	return strays
}

// workspaceStrays: a Service and a row belong to a pod and to one another.
func (p picture) workspaceStrays() []string {
	var strays []string
	pods := map[string]bool{}
	for _, pod := range p.pods {
		pods[pod.Name] = true
		if pod.DeletionTimestamp != nil {
			strays = append(strays, "pod "+pod.Name+" on its way out")
		}
	}
	ports := map[int]string{}
	for _, s := range p.services {
		if s.Name == "kubernetes" {
			continue
		}
		pod := s.Labels[farm.LabelPod]
		if !pods[pod] {
			strays = append(strays, "Service "+s.Name+" without pod")
		}
		for _, port := range s.Spec.Ports {
			ports[int(port.NodePort)] = pod
		}
	}
	for _, r := range p.rows {
		switch {
		case !pods[r.pod]:
			strays = append(strays, fmt.Sprintf("row of port %d without pod %s", r.port, r.pod))
		case ports[r.port] != r.pod:
			strays = append(strays, fmt.Sprintf("row of port %d without a Service of pod %s", r.port, r.pod))
		}
		delete(ports, r.port)
	}
	for _, port := range slices.Sorted(maps.Keys(ports)) {
		strays = append(strays, fmt.Sprintf("Service on port %d without row", port))
	}
	return append(strays, p.gpus.strays(pods)...)
}
