package workspaces

import (
	"fmt"
	"testing"

	"config-server/internal/farm"
)

func node(name string, marks ...string) farm.Node {
	n := farm.Node{Name: farm.NodeName(name), Ready: true}
	for _, mark := range marks {
		switch mark {
		case "NotReady":
			n.Ready = false
		case "cordoned":
			n.Cordoned = true
		case "control-plane":
			n.ControlPlane = true
		}
	}
	return n
}

func wanted(names ...string) []farm.GPUNode {
	var list []farm.GPUNode
	for _, name := range names {
		list = append(list, farm.GPUNode{Name: farm.NodeName(name)})
	}
	return list
}

func TestCandidates(t *testing.T) {
	t.Parallel()
	cluster := []farm.Node{
		node("farm5"), node("Farm6"), node("farm7", "NotReady"), node("farm8", "cordoned"), node("cp1", "control-plane"),
		node("cp2", "control-plane", "cordoned"),
	}
	for name, tc := range map[string]struct {
		wanted  []farm.GPUNode
		cluster []farm.Node
		want    string // names, or the error's text
	}{
		"in the user's order, whatever their case and blanks": {wanted(" FARM6 ", "farm5"), cluster, "[Farm6 farm5]"},
		"one listed twice counts once":                        {wanted("farm5", "FARM5"), cluster, "[farm5]"},
		"missing ones are dropped while another is there":     {wanted("ghost", "farm5"), cluster, "[farm5]"},
		"NotReady and cordoned ones are dropped":              {wanted("farm7", "farm8", "farm5"), cluster, "[farm5]"},
		"a control-plane node that the user may use":          {wanted("cp1"), cluster, "[cp1]"},
		"none is in the cluster: the first is named":          {wanted("ghost", "other"), cluster, "unknown kubernetes node: 'ghost'"},
		"some are in the cluster, none is fit: each reason": {
			wanted("ghost", "farm7", "farm8"), cluster, "no suitable node (ghost: not in the cluster; farm7: NotReady; farm8: cordoned)",
		},
		"nobody named: all but the unfit and the control plane": {nil, cluster, "[farm5 Farm6]"},
		"nobody named and none is fit": {
			nil, []farm.Node{node("a", "cordoned"), node("b", "control-plane")}, "no suitable node (a: cordoned; b: control plane)",
		},
		"an empty cluster": {nil, nil, "no suitable node (the cluster has no nodes)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			names, err := candidates(tc.wanted, tc.cluster)
			got := fmt.Sprint(names)
			if err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestManyUnfitNodesAreNotAllTold(t *testing.T) {
	t.Parallel()
	var cluster []farm.Node
	for i := range 1000 {
		cluster = append(cluster, node(fmt.Sprintf("n%d", i), "cordoned"))
	}
	_, err := candidates(nil, cluster)
	if err == nil || len(err.Error()) > 1000 {
		t.Errorf("error of %d bytes: %.80v", len(fmt.Sprint(err)), err)
	}
}
