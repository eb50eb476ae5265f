package cluster

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"config-server/internal/farm"
)

// CreateService sends a Service. The error wraps farm.ErrPortTaken if its NodePort belongs to a
// Service, even to one of that name because the API server looks at the port first, and
// farm.ErrExists if there is a Service of that name with other ports. After any other error the
// Service may exist all the same.
func (c *Cluster) CreateService(ctx context.Context, service *corev1.Service) error {
	return c.call(ctx, "create service "+service.Name, func(ctx context.Context) error {
		_, err := c.client.CoreV1().Services(c.namespace).Create(ctx, service, metav1.CreateOptions{})
		switch {
		case apierrors.IsAlreadyExists(err):
			return fmt.Errorf("%w: %w", farm.ErrExists, apiError(err))
		case isPortTaken(err):
			return fmt.Errorf("%w: %w", farm.ErrPortTaken, apiError(err))
		}
		return err
	})
}

// ServicesOf lists the Services of a pod, as the API server has them.
func (c *Cluster) ServicesOf(ctx context.Context, pod farm.PodName) ([]farm.Service, error) {
	selector := labels.Set{farm.LabelApp: farm.AppNodePort, farm.LabelPod: string(pod)}
	return c.listServices(ctx, fmt.Sprintf("list services of pod %s", pod), selector)
}

// Services lists the workspace Services of the namespace, as the API server has them.
func (c *Cluster) Services(ctx context.Context) ([]farm.Service, error) {
	return c.listServices(ctx, "list services", labels.Set{farm.LabelApp: farm.AppNodePort})
}

func (c *Cluster) listServices(ctx context.Context, operation string, selector labels.Set) ([]farm.Service, error) {
	list := func(ctx context.Context, opts metav1.ListOptions) ([]corev1.Service, string, error) {
		page, err := c.client.CoreV1().Services(c.namespace).List(ctx, opts)
		if err != nil {
			return nil, "", err
		}
		return page.Items, page.Continue, nil
	}
	return listAll(ctx, c, operation, metav1.ListOptions{LabelSelector: selector.String()}, list, serviceOf)
}

// DeleteService deletes the Service with this name and, unless it is empty, this UID. It reports
// whether there was one: false if it is gone already or the name belongs to another Service.
func (c *Cluster) DeleteService(ctx context.Context, name, uid string) (bool, error) {
	existed := false
	err := c.call(ctx, "delete service "+name, func(ctx context.Context) error {
		services := c.client.CoreV1().Services(c.namespace)
		err := services.Delete(ctx, name, onlyUID(uid))
		if apierrors.IsConflict(err) && uid != "" {
			err = notOurs(err, uid, func() (metav1.Object, error) {
				return services.Get(ctx, name, metav1.GetOptions{})
			})
			if err == nil {
				return nil
			}
		}
		existed = err == nil
		return ignoreNotFound(err)
	})
	return existed, err
}

// sweeps bounds how often DeleteServicesOf starts over because new Services have appeared.
const sweeps = 3

// DeleteServicesOf deletes the Services of a pod and looks again until none is left. One that
// cannot be deleted does not stop the others. It returns how many it deleted; with an error some
// may be left.
func (c *Cluster) DeleteServicesOf(ctx context.Context, pod farm.PodName) (int, error) {
	deleted := 0
	for range sweeps {
		services, err := c.ServicesOf(ctx, pod)
		if err != nil {
			return deleted, err
		}
		if len(services) == 0 {
			return deleted, nil
		}
		var errs []error
		for _, service := range services {
			existed, err := c.DeleteService(ctx, service.Name, service.UID)
			if existed {
				deleted++
			}
			errs = append(errs, err)
		}
		if err := errors.Join(errs...); err != nil {
			return deleted, err
		}
	}
	left, err := c.ServicesOf(ctx, pod)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("delete services of pod %s: %d are left after %d rounds", pod, len(left), sweeps)
	}
	return deleted, err
}

func serviceOf(service *corev1.Service) farm.Service {
	s := farm.Service{
		Name:      service.Name,
		UID:       string(service.UID),
		User:      userOf(service),
		Pod:       farm.PodName(service.Labels[farm.LabelPod]),
		CreatedAt: service.CreationTimestamp.Time,
	}
	for _, port := range service.Spec.Ports {
		internal := int(port.TargetPort.IntVal)
		if internal == 0 {
			internal = int(port.Port)
		}
		s.Ports = append(s.Ports, farm.Port{
			Internal: internal,
			External: int(port.NodePort),
			Purpose:  purposeOf(service, port.Name),
		})
	}
	return s
}

// purposeOf prefers the text as the user wrote it to its form in labels and names.
func purposeOf(service *corev1.Service, portName string) string {
	for _, purpose := range []string{
		service.Annotations[farm.AnnotationPurpose],
		service.Labels[farm.LabelPurpose],
		portName,
	} {
		if purpose != "" {
			return purpose
		}
	}
	return farm.CustomPurpose
}
