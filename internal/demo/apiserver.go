package demo

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

// The NodePorts of a cluster that is installed with the defaults.
const (
	minNodePort = 30000
	maxNodePort = 32767
)

// defaultGrace is the time that a pod has to end, unless it names another.
const defaultGrace = 30 * time.Second

// apiServer is client-go's fake clientset with a store behind it that keeps the API server's rules.
type apiServer struct {
	client *fake.Clientset
	store  *store
}

// lists makes the empty list of each resource that is kept.
var lists = map[string]func() runtime.Object{
	"pods":       func() runtime.Object { return &corev1.PodList{} },
	"services":   func() runtime.Object { return &corev1.ServiceList{} },
	"nodes":      func() runtime.Object { return &corev1.NodeList{} },
	"events":     func() runtime.Object { return &corev1.EventList{} },
	"secrets":    func() runtime.Object { return &corev1.SecretList{} },
	"namespaces": func() runtime.Object { return &corev1.NamespaceList{} },

	"podtemplates":   func() runtime.Object { return &corev1.PodTemplateList{} },
	"resourcequotas": func() runtime.Object { return &corev1.ResourceQuotaList{} },
	"deviceclasses":  func() runtime.Object { return &resourcev1.DeviceClassList{} },
}

// newAPIServer has the nodes of the farm, and two Services of other people whose NodePorts are
// taken, as there are on every cluster.
func newAPIServer() (*apiServer, error) {
	a := &apiServer{client: &fake.Clientset{}, store: newStore()}
	a.client.AddReactor("*", "*", a.react)
	a.client.AddWatchReactor("*", a.watch)
	for i, name := range []string{"farm5", "farm6", "farm7", "farm8"} {
		if _, err := a.store.create("nodes", farmNode(name, 5+i), nothingToCheck); err != nil {
			return nil, err
		}
	}
	for _, other := range []*corev1.Service{
		nodePortService("monitoring", "grafana", 3000, 30002),
		nodePortService(namespace, "containerssh-config-service", 80, 30082),
	} {
		if _, err := a.store.create("services", other, checkService); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func nothingToCheck(object, map[place]object) error { return nil }

// react answers every verb. What it does not know is refused: the clientset would else answer with
// an empty object, as if it had been done.
func (a *apiServer) react(action k8stesting.Action) (bool, runtime.Object, error) {
	kind := action.GetResource().Resource
	if lists[kind] == nil {
		return true, nil, apierrors.NewMethodNotSupported(action.GetResource().GroupResource(), action.GetVerb())
	}
	switch action := action.(type) {
	case k8stesting.CreateActionImpl:
		return reply(a.store.create(kind, withNamespace(action.GetObject(), action.GetNamespace()), checkOf(kind)))
	case k8stesting.UpdateActionImpl:
		return reply(a.store.update(kind, withNamespace(action.GetObject(), action.GetNamespace())))
	case k8stesting.GetActionImpl:
		return reply(a.store.get(place{kind, action.GetNamespace(), action.GetName()}))
	case k8stesting.DeleteActionImpl:
		at := place{kind, action.GetNamespace(), action.GetName()}
		return true, nil, a.store.remove(at, action.GetDeleteOptions(), a.grace(at))
	case k8stesting.ListActionImpl:
		restrictions := action.GetListRestrictions()
		list, err := a.list(kind, action.GetNamespace(), restrictions.Labels, restrictions.Fields)
		return true, list, err
	}
	return true, nil, apierrors.NewMethodNotSupported(action.GetResource().GroupResource(), action.GetVerb())
}

func reply(kept object, err error) (bool, runtime.Object, error) {
	if err != nil {
		return true, nil, err
	}
	return true, kept, nil
}

func withNamespace(sent runtime.Object, namespace string) object {
	o := sent.DeepCopyObject().(object)
	o.SetNamespace(namespace)
	return o
}

func (a *apiServer) list(kind, namespace string, byLabel labels.Selector, byField fields.Selector) (runtime.Object, error) {
	objects, revision := a.store.list(kind, namespace, orAll(byLabel))
	var items []runtime.Object
	for _, o := range objects {
		if byField == nil || byField.Matches(fieldsOf(o)) {
			items = append(items, o)
		}
	}
	list := lists[kind]()
	if err := meta.SetList(list, items); err != nil {
		return nil, fmt.Errorf("list %s: %w", kind, err)
	}
	list.(metav1.ListInterface).SetResourceVersion(revision)
	return list, nil
}

func orAll(selector labels.Selector) labels.Selector {
	if selector == nil {
		return labels.Everything()
	}
	return selector
}

// fieldsOf are the fields by which the API server lets objects be selected.
func fieldsOf(o object) fields.Set {
	set := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
	switch o := o.(type) {
	case *corev1.Event:
		set["type"] = o.Type
		set["involvedObject.name"] = o.InvolvedObject.Name
		set["involvedObject.uid"] = string(o.InvolvedObject.UID)
	case *corev1.Pod:
		set["spec.nodeName"] = o.Spec.NodeName
		set["status.phase"] = string(o.Status.Phase)
	}
	return set
}

func (a *apiServer) watch(action k8stesting.Action) (bool, watch.Interface, error) {
	wanted, ok := action.(k8stesting.WatchActionImpl)
	kind := action.GetResource().Resource
	if !ok || lists[kind] == nil {
		return true, nil, apierrors.NewMethodNotSupported(action.GetResource().GroupResource(), "watch")
	}
	restrictions := wanted.GetWatchRestrictions()
	stream, err := a.store.watch(kind, action.GetNamespace(), orAll(restrictions.Labels), restrictions.ResourceVersion)
	return true, stream, err
}

// grace is how long an object may take to end: pods that a node runs do, anything else goes at once.
func (a *apiServer) grace(at place) time.Duration {
	kept, err := a.store.get(at)
	pod, ok := kept.(*corev1.Pod)
	if err != nil || !ok || pod.Spec.NodeName == "" {
		return 0
	}
	if seconds := pod.Spec.TerminationGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return defaultGrace
}

func checkOf(kind string) func(object, map[place]object) error {
	switch kind {
	case "pods":
		return checkPod
	case "services":
		return checkService
	}
	return nothingToCheck
}

func checkPod(fresh object, _ map[place]object) error {
	pod := fresh.(*corev1.Pod)
	faults := checkLabels(pod)
	for _, message := range validation.IsDNS1123Subdomain(pod.Name) {
		faults = append(faults, field.Invalid(field.NewPath("metadata", "name"), pod.Name, message))
	}
	if len(pod.Spec.Containers) == 0 {
		faults = append(faults, field.Required(field.NewPath("spec", "containers"), ""))
	}
	pod.Status.Phase = corev1.PodPending
	for i := range pod.Spec.Containers {
		requestLimits(&pod.Spec.Containers[i].Resources)
	}
	return invalid("Pod", pod.Name, faults)
}

// requestLimits requests what has a limit alone, as the API server does.
func requestLimits(resources *corev1.ResourceRequirements) {
	for name, limit := range resources.Limits {
		if _, requested := resources.Requests[name]; requested {
			continue
		}
		if resources.Requests == nil {
			resources.Requests = corev1.ResourceList{}
		}
		resources.Requests[name] = limit
	}
}

// checkService refuses what the API server refuses, in its words, and fills in what it fills in.
func checkService(fresh object, others map[place]object) error {
	service := fresh.(*corev1.Service)
	faults := checkLabels(service)
	for _, message := range validation.IsDNS1035Label(service.Name) {
		faults = append(faults, field.Invalid(field.NewPath("metadata", "name"), service.Name, message))
	}
	taken := map[int32]bool{}
	for _, other := range others {
		if other, ok := other.(*corev1.Service); ok {
			for _, port := range other.Spec.Ports {
				taken[port.NodePort] = true
			}
		}
	}
	for i, port := range service.Spec.Ports {
		path := field.NewPath("spec", "ports").Index(i)
		if port.Name != "" {
			for _, message := range validation.IsDNS1123Label(port.Name) {
				faults = append(faults, field.Invalid(path.Child("name"), port.Name, message))
			}
		}
		switch {
		case port.NodePort == 0:
		case port.NodePort < minNodePort || port.NodePort > maxNodePort:
			faults = append(faults, field.Invalid(path.Child("nodePort"), port.NodePort,
				fmt.Sprintf("provided port is not in the valid range. The range of valid ports is %d-%d", minNodePort, maxNodePort)))
		case taken[port.NodePort]:
			faults = append(faults, field.Invalid(path.Child("nodePort"), port.NodePort, "provided port is already allocated"))
		}
		taken[port.NodePort] = true
	}
	return invalid("Service", service.Name, faults)
}

func checkLabels(o object) field.ErrorList {
	var faults field.ErrorList
	for key, value := range o.GetLabels() {
		for _, message := range validation.IsValidLabelValue(value) {
			faults = append(faults, field.Invalid(field.NewPath("metadata", "labels").Key(key), value, message))
		}
	}
	return faults
}

func invalid(kind, name string, faults field.ErrorList) error {
	if len(faults) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Kind: kind}, name, faults)
}

// gpuModels are the models of the farm's GPUs, as NVIDIA's operator labels nodes with them.
var gpuModels = [2]string{"NVIDIA-L40S", "NVIDIA-RTX-A5000"}

func farmNode(name string, number int) *corev1.Node {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("64"),
		corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
		"nvidia.com/gpu":      resource.MustParse("2"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: withLabels(map[string]string{
			"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
			"nvidia.com/gpu.product": gpuModels[number%2],
		}, projectLabels(name))},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}},
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeIP(number)}, {Type: corev1.NodeHostName, Address: name}},
		},
	}
}

func nodeIP(number int) string { return fmt.Sprintf("192.0.2.%d", number) }

func nodePortService(namespace, name string, port, nodePort int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": strings.ToLower(name)}},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{
			Port: port, NodePort: nodePort, TargetPort: intstr.FromInt32(port),
		}}},
	}
}
