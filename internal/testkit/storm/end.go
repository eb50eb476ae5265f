package storm

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/farm"
	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// settleLimit bounds the mending after a storm: recovery, and twice the reconciler's grace.
const settleLimit = 90 * time.Second

// settle waits until nothing is under way any more and nothing is left to mend.
func (s *Storm) settle() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), settleLimit)
	defer cancel()
	begin := time.Now()
	if err := testkit.Eventually(ctx, s.unsettled); err != nil {
		s.violate("not mended within %s: %v", settleLimit, err)
		return
	}
	s.t.Logf("everything is mended %.1fs after the last call", time.Since(begin).Seconds())
}

// unsettled names what is still under way or left over.
func (s *Storm) unsettled(ctx context.Context) error {
	strays, err := s.strayFiles()
	if err != nil || len(strays) > 0 {
		return errors.Join(err, fmt.Errorf("files of unfinished operations: %v", strays))
	}
	var operations int
	if err := s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM config_server_operations").Scan(&operations); err != nil {
		return err
	}
	if operations > 0 {
		return fmt.Errorf("%d records of operations", operations)
	}
	if err := s.locksHeld(ctx); err != nil {
		return err
	}
	list, err := s.kube.CoreV1().Pods(s.world.Cluster.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	pods := map[string]bool{}
	for _, pod := range list.Items {
		pods[pod.Name] = true
		if pod.DeletionTimestamp != nil {
			return fmt.Errorf("pod %s is on its way out", pod.Name)
		}
	}
	ports, err := s.servicePorts(ctx)
	if err != nil {
		return err
	}
	rows, err := s.rows(ctx)
	if err != nil {
		return err
	}
	for port, held := range ports {
		if !pods[held.pod] || rows[port] != held.pod {
			return fmt.Errorf("port %d is open for pod %s (there: %v), its row is of %q", port, held.pod, pods[held.pod], rows[port])
		}
	}
	for port, pod := range rows {
		if ports[port].pod != pod {
			return fmt.Errorf("row of port %d is of pod %s, the port is open for %q", port, pod, ports[port].pod)
		}
	}
	return nil
}

// locksHeld asks the server for every lock that callers can have held. Its own name for a lock is
// the one that database.LockName documents.
func (s *Storm) locksHeld(ctx context.Context) error {
	names := []string{"ledger", "reconciler", "user/" + keeper}
	for _, user := range s.users {
		names = append(names, "user/"+user)
	}
	for _, lock := range names {
		sum := sha256.Sum256([]byte(s.world.Database + "\x00" + lock))
		var free int
		if err := s.db.QueryRowContext(ctx, "SELECT IS_FREE_LOCK(?)", "config-server:"+hex.EncodeToString(sum[:24])).Scan(&free); err != nil {
			return err
		}
		if free != 1 {
			return fmt.Errorf("lock %s is held", lock)
		}
	}
	return nil
}

// judgeWhole compares passwd, group, shadow, homes and memberships with one another.
func (s *Storm) judgeWhole(f files) {
	for user, entry := range f.users {
		if entry.uid < int(farm.MinID) || entry.uid == int(farm.NobodyID) {
			continue
		}
		if f.groups[user] != entry.gid || !f.shadow[user] {
			s.violate("in the end %s (%d) is half there: group %d, in shadow %v", user, entry.uid, f.groups[user], f.shadow[user])
		}
		if owner, found := s.homeOwner(user); !found || owner != entry.uid {
			s.violate("in the end the home of %s (%d) is there: %v, of %d", user, entry.uid, found, owner)
		}
	}
	for user := range f.shadow {
		if _, there := f.users[user]; !there {
			s.violate("in the end %s is in shadow and not in passwd", user)
		}
	}
	for group, gid := range f.groups {
		for _, member := range f.members[group] {
			if _, there := f.users[member]; !there {
				s.violate("in the end group %s has the member %s, who is not there", group, member)
			}
		}
		if _, there := f.users[group]; !there && slices.Contains(s.users, group) {
			s.violate("in the end there is a group %s (%d) of a user who is not there", group, gid)
		}
	}
	for _, home := range s.world.Homes(s.t) {
		n := s.accounts[home]
		if _, there := f.users[home]; !there && (n == nil || !n.mayLeaveHome) {
			s.violate("in the end there is a home of %s, who is not there", home)
		}
	}
}

func (s *Storm) homeOwner(user string) (int, bool) {
	info, err := os.Stat(filepath.Join(s.world.NAS.ShareDir, user))
	if err != nil {
		return 0, false
	}
	return int(info.Sys().(*syscall.Stat_t).Uid), true
}

// judgeWorkspaces compares what is in the cluster with what callers were told. That pods, Services
// and rows belong together is settled before.
func (s *Storm) judgeWorkspaces() {
	ports := map[string][]int{}
	for _, service := range s.world.Services(s.t) {
		for _, port := range service.Spec.Ports {
			ports[service.Labels[farm.LabelPod]] = append(ports[service.Labels[farm.LabelPod]], int(port.NodePort))
		}
	}
	there := map[string]bool{}
	count := map[string]int{}
	for _, pod := range s.world.Pods(s.t) {
		there[pod.Name] = true
		count[pod.Labels[farm.LabelUser]]++
		if len(ports[pod.Name]) != 2 || pod.Status.Phase != corev1.PodRunning {
			s.violate("in the end workspace %s is half there: %s, ports %v", pod.Name, pod.Status.Phase, ports[pod.Name])
		}
	}
	for _, p := range s.pods.byName {
		slices.Sort(p.ports)
		slices.Sort(ports[p.name])
		switch {
		case p.gone && there[p.name]:
			s.violate("in the end workspace %s is there and was taken away", p.name)
		case p.certain() && !there[p.name]:
			s.violate("in the end workspace %s is gone and nobody took it away", p.name)
		case there[p.name] && !slices.Equal(p.ports, ports[p.name]):
			s.violate("in the end workspace %s has ports %v and was given with %v", p.name, ports[p.name], p.ports)
		}
	}
	for _, user := range slices.Sorted(maps.Keys(s.pods.of)) {
		if t := s.pods.of[user]; count[user] < t.least || count[user] > t.most {
			s.violate("in the end %s has %d workspaces; the answers allow %d to %d", user, count[user], t.least, t.most)
		}
	}
	s.t.Logf("in the end there are %d workspaces; %d were given", len(there), len(s.pods.byName))
}

// gauges are what must not grow in a process, and how often its database transactions were repeated.
type gauges struct{ goroutines, files, retries int }

// readGauges reads them from /metrics.
func (s *Storm) readGauges(ctx context.Context, base string) (gauges, error) {
	answer, err := world.SendBy(ctx, s.client, base, "GET", "/metrics", "")
	if err != nil {
		return gauges{}, err
	}
	var g gauges
	lines := bufio.NewScanner(bytes.NewReader(answer.Body))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		number, _ := strconv.ParseFloat(value, 64)
		name, _, _ = strings.Cut(name, "{")
		switch name {
		case "config_server_allocator_retries_total":
			g.retries += int(number)
		case "go_goroutines":
			g.goroutines = int(number)
		case "process_open_fds":
			g.files = int(number)
		}
	}
	if g.goroutines == 0 || g.files == 0 {
		return g, fmt.Errorf("no gauges in /metrics: %d", answer.Status)
	}
	return g, lines.Err()
}

// room is how much an idle process may have more than at its start: connections that pools keep.
var room = gauges{goroutines: 60, files: 40}

// judgeLeftovers looks for growth in the processes that stand at the end.
func (s *Storm) judgeLeftovers() {
	s.t.Helper()
	for i, one := range s.instances {
		base, _ := one.url.Load().(string)
		if base == "" {
			continue
		}
		ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
		var now gauges
		err := testkit.Eventually(ctx, func(ctx context.Context) error {
			var err error
			if now, err = s.readGauges(ctx, base); err != nil {
				return err
			}
			s.client.CloseIdleConnections()
			if now.goroutines > s.idle.goroutines+room.goroutines || now.files > s.idle.files+room.files {
				return fmt.Errorf("%d goroutines and %d files, at first %d and %d", now.goroutines, now.files, s.idle.goroutines, s.idle.files)
			}
			return nil
		})
		cancel()
		if err != nil {
			s.violate("instance %d has grown: %v", i, err)
			continue
		}
		s.t.Logf("instance %d since its last start: %d goroutines, %d files open (fresh: %d, %d), %d transactions repeated",
			i, now.goroutines, now.files, s.idle.goroutines, s.idle.files, now.retries)
	}
}
