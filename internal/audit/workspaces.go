package audit

import (
	"fmt"
	"slices"
	"strings"

	"config-server/internal/farm"
)

// workspaces compares rows, pods and Services, leaving out the pods that an operation works on.
func (c *comparison) workspaces() {
	if c.has(PartRows) {
		c.doublePorts()
	}
	if !c.has(PartPods) {
		return
	}
	if c.has(PartRows) {
		c.rowsOfNothing()
	}
	if c.has(PartServices) {
		c.servicesOfNothing()
	}
	if c.has(PartRows, PartServices) {
		c.ports()
	}
	if c.AssignsGPUs {
		c.gpus()
	}
	for _, p := range c.Pods {
		if !p.Terminating && !c.busy[p.Name] {
			c.pod(p)
		}
	}
}

func (c *comparison) doublePorts() {
	count := map[int]int{}
	for _, r := range c.Rows {
		if count[r.Port.External]++; count[r.Port.External] == 2 {
			c.add(DuplicatePort, fmt.Sprint(r.Port.External), "",
				c.Places.sql(fmt.Sprintf("SELECT * FROM nodeport_allocations WHERE node_port = %d", r.Port.External)),
				"two rows of one port; the table's unique key is missing")
		}
	}
}

func (c *comparison) rowsOfNothing() {
	for name, rows := range c.rows {
		if _, alive := c.pods[name]; !alive && !c.busy[name] {
			c.add(RowWithoutPod, string(name), rows[0].User, c.Places.deletePod(name),
				"%s, reserved for a pod that is gone", farm.PortsText(len(rows), rows[0].Port.External))
		}
	}
}

func (c *comparison) servicesOfNothing() {
	for _, s := range c.Services {
		if _, alive := c.pods[s.Pod]; !alive && !c.busy[s.Pod] {
			remedy := c.Places.deletePod(s.Pod)
			if farm.CheckPodName(string(s.Pod)) != nil {
				remedy = c.Places.kubectl("delete service " + quote(s.Name))
			}
			c.add(ServiceWithoutPod, s.Name, s.User, remedy, "its pod %s is gone", s.Pod)
		}
	}
}

// ports compares each port of living pods in table and cluster.
func (c *comparison) ports() {
	for _, s := range c.Services {
		pod, alive := c.pods[s.Pod]
		if !alive || c.busy[s.Pod] {
			continue
		}
		for _, p := range s.Ports {
			c.port(pod, s, p)
		}
	}
	for _, r := range c.Rows {
		if _, alive := c.pods[r.Pod]; alive && !c.busy[r.Pod] && !c.opened[r.Port.External] && len(c.services[r.Pod]) > 0 {
			c.add(RowWithoutService, fmt.Sprint(r.Port.External), r.User, c.Places.openPort(r), "reserved for port %d of pod %s, and no Service opens it", r.Port.Internal, r.Pod)
		}
	}
}

func (c *comparison) port(pod farm.Pod, s farm.Service, p farm.Port) {
	row, exists := c.rowOf[p.External]
	if !exists {
		c.add(ServiceWithoutRow, s.Name, s.User, remedyReconcile, "port %d of pod %s has no row: it could be given to somebody else", p.External, s.Pod)
		return
	}
	var differs []string
	if row.Pod != s.Pod {
		differs = append(differs, fmt.Sprintf("pod %s, not %s", row.Pod, s.Pod))
	}
	if row.Port.Internal != p.Internal {
		differs = append(differs, fmt.Sprintf("port %d inside, not %d", row.Port.Internal, p.Internal))
	}
	if len(differs) > 0 && !c.busy[row.Pod] {
		statement := fmt.Sprintf("UPDATE nodeport_allocations SET username = %s, pod_name = %s, node_name = %s, internal_port = %d WHERE id = %d AND node_port = %d",
			sqlText(string(s.User)), sqlText(string(s.Pod)), sqlText(string(pod.Node)), p.Internal, row.ID, p.External)
		c.add(PortMismatch, s.Name, s.User, c.Places.sql(statement), "the row of port %d says %s", p.External, strings.Join(differs, " and "))
	}
}

// sqlText is a text constant for MySQL and SQLite. Names with a backslash are none of ours.
func sqlText(text string) string {
	return "'" + strings.NewReplacer("'", "''", `\`, "").Replace(text) + "'"
}

// portsOf names the ports of a pod by its rows, or, where it has more of them, by its Services.
func (c *comparison) portsOf(pod farm.PodName) string {
	var ports []int
	for _, r := range c.rows[pod] {
		ports = append(ports, r.Port.External)
	}
	if len(c.services[pod]) > len(ports) {
		ports = nil
		for _, s := range c.services[pod] {
			for _, p := range s.Ports {
				ports = append(ports, p.External)
			}
		}
	}
	if len(ports) == 0 {
		return "a Service without ports"
	}
	return farm.PortsText(len(ports), slices.Min(ports))
}

func (c *comparison) pod(p farm.Pod) {
	held := len(c.rows[p.Name]) + len(c.services[p.Name])
	ended := p.Phase == "Failed" || p.Phase == "Succeeded"
	switch {
	case ended && held > 0:
		c.add(EndedPod, string(p.Name), p.User, c.Places.deletePod(p.Name), "phase %s, and it holds %s", p.Phase, c.portsOf(p.Name))
	case held == 0 && c.has(PartRows, PartServices):
		c.add(PodWithoutRow, string(p.Name), p.User, c.Places.deletePod(p.Name), "phase %s on node %s, with neither row nor Service: nobody can reach it", p.Phase, p.Node)
	case len(c.rows[p.Name]) > 0 && len(c.services[p.Name]) == 0 && c.has(PartRows, PartServices):
		c.add(RowWithoutService, string(p.Name), p.User, c.Places.deletePod(p.Name), "it has rows and no Service at all: nobody can reach it; make it anew with POST /create-pod")
	}
	if c.has(PartLedger) {
		if _, exists := c.account[p.User]; !exists && !c.settling[p.User] {
			c.add(PodOfNobody, string(p.Name), p.User, c.Places.deletePod(p.Name), "its user %s is no account", p.User)
		}
	}
}
