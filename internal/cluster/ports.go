package cluster

import (
	"context"
	"log/slog"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// byNodePort is the index of Services by each NodePort that they hold.
const byNodePort = "nodePort"

// watchServices watches the Services of all namespaces, for nothing but their NodePorts: those are
// one range for the whole cluster.
func watchServices(client kubernetes.Interface, log *slog.Logger) *watched {
	from := source{
		list: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Services(metav1.NamespaceAll).List(ctx, opts)
		},
		watch: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().Services(metav1.NamespaceAll).Watch(ctx, opts)
		},
	}
	slim := func(object any) (any, error) {
		service, ok := object.(*corev1.Service)
		if !ok {
			return object, nil
		}
		kept := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Name:            service.Name,
			Namespace:       service.Namespace,
			ResourceVersion: service.ResourceVersion,
		}}
		kept.Spec.HealthCheckNodePort = service.Spec.HealthCheckNodePort
		for _, port := range service.Spec.Ports {
			if port.NodePort != 0 {
				kept.Spec.Ports = append(kept.Spec.Ports, corev1.ServicePort{NodePort: port.NodePort})
			}
		}
		return kept, nil
	}
	return newWatched("services", client, log, &corev1.Service{}, from, slim, cache.Indexers{byNodePort: nodePortsOf})
}

func nodePortsOf(object any) ([]string, error) {
	service, ok := object.(*corev1.Service)
	if !ok {
		return nil, nil
	}
	var ports []string
	for _, port := range service.Spec.Ports {
		if port.NodePort != 0 {
			ports = append(ports, strconv.Itoa(int(port.NodePort)))
		}
	}
	if port := service.Spec.HealthCheckNodePort; port != 0 {
		ports = append(ports, strconv.Itoa(int(port)))
	}
	return ports, nil
}

// TakenPorts are the NodePorts that Services of any namespace hold. The second result is false,
// and the map then empty or old, without the right to watch Services cluster-wide or while that
// watch is broken: what the API server says to a Service (farm.ErrPortTaken) has to do then.
func (c *Cluster) TakenPorts() (map[int]bool, bool) {
	if c.setupErr != nil {
		return map[int]bool{}, false
	}
	values := c.services.informer.GetIndexer().ListIndexFuncValues(byNodePort)
	taken := make(map[int]bool, len(values))
	for _, value := range values {
		if port, err := strconv.Atoi(value); err == nil {
			taken[port] = true
		}
	}
	return taken, c.services.fresh()
}
