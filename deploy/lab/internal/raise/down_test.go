package raise

import "testing"

func TestRemovalTakesOurChainsAndNoOthers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ saved, want string }{
		"nothing there": {"*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n", ""},
		"only rules of others": {
			"*filter\n:DOCKER - [0:0]\n-A FORWARD -j DOCKER\nCOMMIT\n", "",
		},
		"ours beside others": {
			"# by iptables-save\n*nat\n:OUTPUT ACCEPT [0:0]\n:DOCKER - [0:0]\n:KUBE-SERVICES - [0:0]\n:KUBE-MARK-MASQ - [0:0]\n" +
				"-A OUTPUT -j DOCKER\n-A OUTPUT -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n" +
				"-A KUBE-SERVICES -j KUBE-MARK-MASQ\nCOMMIT\n",
			"*nat\n-D OUTPUT -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n" +
				"-F KUBE-SERVICES\n-F KUBE-MARK-MASQ\n-X KUBE-SERVICES\n-X KUBE-MARK-MASQ\nCOMMIT\n",
		},
		"two tables": {
			"*mangle\n:KUBE-PROXY-CANARY - [0:0]\nCOMMIT\n*filter\n:CNI-FORWARD - [0:0]\n-A FORWARD -j CNI-FORWARD\nCOMMIT\n",
			"*mangle\n-F KUBE-PROXY-CANARY\n-X KUBE-PROXY-CANARY\nCOMMIT\n*filter\n-D FORWARD -j CNI-FORWARD\n-F CNI-FORWARD\n-X CNI-FORWARD\nCOMMIT\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := removalOf(test.saved); got != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
		})
	}
}
