package demo

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"

	"github.com/opencontainers/go-digest"

	"config-server/internal/farm"
	"config-server/internal/podspec"
)

// Registries is the connection to registries as they are played here: every image is there, and its
// content is that of its name.
func (s *Surroundings) Registries() http.RoundTripper { return registries{} }

type registries struct{}

// RoundTrip answers as a registry does that has the image.
func (registries) RoundTrip(request *http.Request) (*http.Response, error) {
	header := http.Header{"Docker-Content-Digest": {digest.FromString(request.URL.Host + request.URL.Path).String()}}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Body: http.NoBody, Request: request,
	}, nil
}

// isExport knows the pod of an image export.
func isExport(o object) bool { return o.GetLabels()[farm.LabelApp] == farm.AppExport }

// exported is what the pod of an export writes: a tar with one file, at the path that was asked for.
func exported(pod *corev1.Pod) (string, error) {
	path, text := pod.Spec.Containers[0].Command[4], "demo: every file of every image has this text\n"
	var content bytes.Buffer
	files := tar.NewWriter(&content)
	err := files.WriteHeader(&tar.Header{Name: path, Mode: 0o755, Size: int64(len(text))})
	if err == nil {
		_, err = io.WriteString(files, text)
	}
	if err == nil {
		err = files.Close()
	}
	if err != nil {
		return "", fmt.Errorf("write a tar with %s: %w", path, err)
	}
	return fmt.Sprintf("%s\n\n%s%d\n", base64.StdEncoding.EncodeToString(content.Bytes()), podspec.ExportDone, content.Len()), nil
}
