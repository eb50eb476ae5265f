package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/deploy/lab/internal/site"
)

// The walk's PodTemplates, as bob's configuration names them.
const (
	templateName = prefix + "team"
	brokenName   = prefix + "broken"
)

func templateChecks() []check {
	return []check{
		{"a template adds a sidecar, a volume and a variable to a workspace, and its user logs in", templateShapes},
		{"what the template says of the service's own fields counts for nothing", templateYields},
		{"a template that breaks the pod is told with the API server's reason, and nothing is left", templateBreaks},
	}
}

// teamTemplate has a folder that is filled before the workspace starts, and a sidecar that writes to it.
func teamTemplate() corev1.PodTemplateSpec {
	room := resource.MustParse("16Mi")
	scratch := []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
	beside := func(name, command string) corev1.Container {
		return corev1.Container{
			Name: name, Image: site.WorkspaceImage, ImagePullPolicy: corev1.PullNever, Command: []string{"/bin/sh", "-c", command}, VolumeMounts: scratch,
		}
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "vision", "username": "root"}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways,
			Volumes:       []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &room}}}},
			InitContainers: []corev1.Container{
				beside("prepare", "umask 0; echo prepared >/scratch/first && mkdir /scratch/box"),
			},
			Containers: []corev1.Container{
				{
					Name: "shell", Image: "unused", VolumeMounts: scratch,
					Env: []corev1.EnvVar{{Name: "TEAM", Value: "vision of $(USER)"}, {Name: "HOME", Value: "/root"}},
				},
				beside("scribe", "trap 'exit 0' TERM; while :; do for f in /scratch/box/*; do [ -e $f ] && echo answered >/scratch/${f##*/}.answer; done; sleep 0.2; done"),
			},
		},
	}
}

// keepTemplate stores a template in place of one of that name.
func (w *walk) keepTemplate(ctx context.Context, name string, template corev1.PodTemplateSpec) error {
	kept := w.admin.CoreV1().PodTemplates(site.Namespace)
	err := kept.Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	_, err = kept.Create(ctx, &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}, Template: template}, metav1.CreateOptions{})
	return err
}

// dropTemplates removes the walk's templates.
func (w *walk) dropTemplates(ctx context.Context) error {
	for _, name := range []string{templateName, brokenName} {
		err := w.admin.CoreV1().PodTemplates(site.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func templateShapes(ctx context.Context, w *walk) error {
	if _, err := w.account(ctx, bob); err != nil {
		if err := w.addUser(ctx, bob); err != nil {
			return err
		}
	}
	if err := w.keepTemplate(ctx, templateName, teamTemplate()); err != nil {
		return err
	}
	if err := w.configure(ctx, bob, map[string]any{"pod_template": templateName}); err != nil {
		return err
	}
	if _, err := w.create(ctx, bob); err != nil {
		return err
	}
	// A process of the user's own has the container's variables; a login has its own.
	const variable = `for p in /proc/[0-9]*; do tr '\0' '\n' 2>/dev/null <$p/environ; done | grep ^TEAM= | sort -u`
	for command, want := range map[string]string{
		"cat /scratch/first": "prepared",
		variable:             "TEAM=vision of " + bob,
		`echo please >/scratch/box/letter && for i in $(seq 100); do [ -e /scratch/letter.answer ] && break; sleep 0.1; done; cat /scratch/letter.answer`: "answered",
		`echo "$(id -un) $HOME"`: bob + " /home/" + bob,
	} {
		got, err := w.shell(ctx, bob, command)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%s says %q, want %q", command, got, want)
		}
	}
	return nil
}

func templateYields(ctx context.Context, w *walk) error {
	s, err := w.space(bob)
	if err != nil {
		return err
	}
	pod, err := w.pod(ctx, s.PodName)
	if err != nil {
		return err
	}
	main := pod.Spec.Containers[0]
	switch {
	case pod.Labels["username"] != bob || pod.Labels["team"] != "vision":
		err = fmt.Errorf("labels %v", pod.Labels)
	case pod.Spec.RestartPolicy != corev1.RestartPolicyNever:
		err = fmt.Errorf("restartPolicy %s", pod.Spec.RestartPolicy)
	case main.Name != "shell" || main.Image != site.WorkspaceImage || main.ImagePullPolicy != corev1.PullNever:
		err = fmt.Errorf("container %s of image %s, pulled %s", main.Name, main.Image, main.ImagePullPolicy)
	case !slices.ContainsFunc(main.Env, func(v corev1.EnvVar) bool { return v.Name == "HOME" && v.Value == "/home/"+bob }):
		err = fmt.Errorf("variables %v", main.Env)
	}
	return errors.Join(err, w.remove(ctx, bob), w.nothingOf(ctx, bob))
}

func templateBreaks(ctx context.Context, w *walk) error {
	broken := teamTemplate()
	broken.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.org/gate"}} // no pod that has its node may have one
	if err := w.keepTemplate(ctx, brokenName, broken); err != nil {
		return err
	}
	if err := w.configure(ctx, bob, map[string]any{"pod_template": brokenName}); err != nil {
		return err
	}
	a, err := w.want(ctx, http.StatusInternalServerError, http.MethodPost, "/create-pod", map[string]any{"username": bob})
	if err = errors.Join(err, w.configure(ctx, bob, nil), w.dropTemplates(ctx)); err != nil {
		return err
	}
	if a.text("step") != "CREATE_POD" || a.text("k8s_status") != "422" || !strings.Contains(a.text("detail"), "schedulingGates") {
		return fmt.Errorf("it says %s", a.raw)
	}
	return w.nothingOf(ctx, bob)
}
