package cluster

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

// big is a Cluster that watches a farm of 1,000 nodes on which every NodePort is taken.
func big(b *testing.B) *Cluster {
	b.Helper()
	var objects []runtime.Object
	for i := range 1000 {
		objects = append(objects, node(fmt.Sprintf("farm%d", i)))
	}
	for port := 30000; port <= 32767; port++ {
		objects = append(objects, service(fmt.Sprintf("s%d", port), fmt.Sprintf("uid-%d", port), func(s *corev1.Service) {
			s.Spec.Ports[0].NodePort = int32(port)
		}))
	}
	c := New(fake.NewClientset(objects...), Options{Namespace: namespace})
	c.Start(context.WithoutCancel(b.Context()))
	b.Cleanup(c.Stop)
	if !c.WaitSynced(b.Context()) {
		b.Fatal("the watches have no state")
	}
	return c
}

func BenchmarkTakenPorts(b *testing.B) {
	c := big(b)
	b.ReportAllocs()
	for b.Loop() {
		if taken, _ := c.TakenPorts(); len(taken) != 2768 {
			b.Fatal(len(taken))
		}
	}
}

func BenchmarkNodes(b *testing.B) {
	c := big(b)
	b.ReportAllocs()
	for b.Loop() {
		if nodes, err := c.Nodes(b.Context()); err != nil || len(nodes) != 1000 {
			b.Fatal(len(nodes), err)
		}
	}
}
