package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/deploy/lab/internal/site"
)

// The release that runs the image: everything of it has a name or a place of its own, so that it lives beside the lab's
// service and nothing of one is the other's.
const (
	releaseName      = prefix + "image"
	releaseNamespace = prefix + "image"
	releaseDatabase  = "walk_image"
	releaseUser      = prefix + "eve"
	releaseURL       = "http://127.0.0.1:30082" // the chart's NodePort
	shareOwner       = 1026                     // of everything on its share, and of the process
	shareGroup       = 100
)

// ownHomes is where the release's container has the homes.
var ownHomes = path.Join("/srv", path.Base(site.SharePath))

// release is what has to be taken back.
type release struct {
	relays relays
	pod    string
}

// node is the one on which the image runs.
func (w *walk) node() site.Node { return w.site.Nodes[0] }

func (w *walk) releaseShare() string { return w.site.Path("image-share") }

// builtImage is the image that the checkout's sources give, as make image names it.
func (w *walk) builtImage() (archive, name string, err error) {
	folder := filepath.Join(w.lab.Checkout, "bin", "image")
	text, err := os.ReadFile(filepath.Join(folder, "config-server-plain.json"))
	if err != nil {
		return "", "", fmt.Errorf("%w (make image builds it, and make lab calls that)", err)
	}
	var images []struct{ Image, Platform string }
	if err := json.Unmarshal(text, &images); err != nil {
		return "", "", err
	}
	for _, image := range images {
		if image.Platform == "linux/"+runtime.GOARCH {
			return filepath.Join(folder, "config-server-plain-linux-"+runtime.GOARCH+".tar"), image.Image, nil
		}
	}
	return "", "", errors.New("there is no image for linux/" + runtime.GOARCH)
}

// prepareRelease makes what an operator has before the chart: namespace, Secrets, database, share; and the ways from a pod
// to the lab's parts.
func (w *walk) prepareRelease(ctx context.Context) error {
	if err := w.openWays(ctx); err != nil {
		return err
	}
	if err := os.Mkdir(w.releaseShare(), 0o755); err != nil {
		return err
	}
	if err := os.Chown(w.releaseShare(), shareOwner, shareGroup); err != nil {
		return err
	}
	err := w.asDatabaseRoot(ctx, "CREATE DATABASE "+releaseDatabase+" CHARACTER SET utf8mb4",
		"GRANT ALL ON "+releaseDatabase+".* TO '"+site.DBUser+"'@'%'")
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: releaseNamespace}}
	if _, err := w.admin.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	key, err := os.ReadFile(w.site.Path("keys", "nas"))
	if err != nil {
		return err
	}
	for name, data := range map[string]map[string][]byte{
		"config-server-db-secret": {"password": []byte(w.site.DBPassword)}, "nas-ssh-key": {"id_rsa": key},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
		if _, err := w.admin.CoreV1().Secrets(releaseNamespace).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// openWays lets pods of the node reach the lab's parts on the node's address, and the API server where every pod looks for
// it: behind the Service kubernetes, which has nobody behind it otherwise.
func (w *walk) openWays(ctx context.Context) error {
	address := w.node().Gateway()
	for _, part := range []site.Part{site.APIServer, site.MariaDB, site.Prometheus, site.AdminBE, site.NAS} {
		if err := w.release.relays.open(ctx, net.JoinHostPort(address, strconv.Itoa(w.site.PortOf(part))), w.site.Address(part)); err != nil {
			return err
		}
	}
	name, port := "https", int32(w.site.PortOf(site.APIServer))
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: releaseName, Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}}},
		Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
	}
	_, err := w.admin.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Create(ctx, slice, metav1.CreateOptions{})
	return err
}

// asDatabaseRoot runs statements as the administrator, who comes by the server's socket.
func (w *walk) asDatabaseRoot(ctx context.Context, statements ...string) error {
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr, config.Timeout = "root", "unix", w.site.Path("mariadb", "sock"), 5*time.Second
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer func() { _ = db.Close() }()
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// install installs the chart as docs/operations.md says.
func (w *walk) install(ctx context.Context, image string) error {
	known, err := os.ReadFile(w.site.Path("keys", "nas-known-hosts"))
	if err != nil {
		return err
	}
	address := w.node().Gateway()
	repository, tag, _ := strings.Cut(image, ":")
	text, err := json.Marshal(map[string]any{
		"image":  map[string]any{"repository": repository, "tag": tag, "pullPolicy": "Never"},
		"config": map[string]any{"namespace": releaseNamespace},
		"nfs":    map[string]any{"server": "192.0.2.30", "userSharePath": site.SharePath, "kubeShareHostPath": w.releaseShare()},
		"nas": map[string]any{"ssh": map[string]any{
			"host": address, "port": w.site.PortOf(site.NAS), "user": site.NASUser, "knownHosts": strings.ReplaceAll(string(known), "127.0.0.1", address),
		}},
		"security":   map[string]any{"runAsUser": shareOwner, "runAsGroup": shareGroup},
		"db":         map[string]any{"host": address, "port": w.site.PortOf(site.MariaDB), "name": releaseDatabase, "user": site.DBUser},
		"imageStore": map[string]any{"enabled": false},
		// Where the image was imported, and where the ways to the parts begin.
		"nodeSelector": map[string]any{corev1.LabelHostname: w.node().Name},
		// The two services would take the same ports in turn otherwise, and find out from the API server.
		"env": map[string]any{
			"NODEPORT_MIN": "31000", "HOME_VOLUME": "self", "FARM_HOME_MOUNT_ROOT": ownHomes, "IMAGE_PULL_POLICY": "Never", "ACCOUNT_SECRET": "true",
			"PROM_URL":            "http://" + net.JoinHostPort(address, strconv.Itoa(w.site.PortOf(site.Prometheus))),
			"WAS_URL_TEMPLATE":    "http://" + net.JoinHostPort(address, strconv.Itoa(w.site.PortOf(site.AdminBE))) + "/api/requests/config/{username}",
			"DEFAULT_CPU_REQUEST": "100m", "DEFAULT_CPU_LIMIT": "1000m", "DEFAULT_MEM_REQUEST": "64Mi", "DEFAULT_MEM_LIMIT": "512Mi",
		},
		// The folder above the homes, so that workspaces have a folder of the volume.
		"extraVolumes":      []any{map[string]any{"name": "homes", "hostPath": map[string]any{"path": path.Dir(site.SharePath), "type": "Directory"}}},
		"extraVolumeMounts": []any{map[string]any{"name": "homes", "mountPath": path.Dir(ownHomes), "readOnly": true}},
		// Nobody calls any more when it goes.
		"preStopSleepSeconds": 0,
	})
	if err != nil {
		return err
	}
	values := w.site.Path("image-values.json")
	if err := os.WriteFile(values, text, 0o600); err != nil {
		return err
	}
	return w.helm(ctx, "upgrade", "--install", releaseName, filepath.Join(w.lab.Checkout, "deploy", "helm", "config-server"), "--values", values)
}

func (w *walk) helm(ctx context.Context, args ...string) error {
	program, err := w.lab.Built("helm")
	if err != nil {
		return err
	}
	folder := w.site.Path("helm")
	cmd := exec.CommandContext(ctx, program, append(args, "--kubeconfig", w.site.Kubeconfig("admin"), "--namespace", releaseNamespace)...)
	// It keeps what it has learnt of the cluster below HOME.
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + folder, "HELM_CACHE_HOME=" + folder, "HELM_CONFIG_HOME=" + folder, "HELM_DATA_HOME=" + folder}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("helm %s: %w: %s", args[0], err, out)
	}
	return nil
}

// removeRelease takes back all of it, whatever of it is there.
func (w *walk) removeRelease(ctx context.Context) error {
	faults := []error{w.release.relays.close()}
	note := func(err error) {
		if err != nil && !apierrors.IsNotFound(err) {
			faults = append(faults, err)
		}
	}
	_, err := w.admin.CoreV1().Namespaces().Get(ctx, releaseNamespace, metav1.GetOptions{})
	if err == nil {
		note(w.helm(ctx, "uninstall", releaseName, "--ignore-not-found"))
		note(w.admin.CoreV1().Namespaces().Delete(ctx, releaseNamespace, metav1.DeleteOptions{}))
		err = until(ctx, 90*time.Second, func(ctx context.Context) error {
			_, err := w.admin.CoreV1().Namespaces().Get(ctx, releaseNamespace, metav1.GetOptions{})
			if err == nil {
				return errors.New("namespace " + releaseNamespace + " is still there")
			}
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		})
	}
	note(err)
	note(w.admin.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Delete(ctx, releaseName, metav1.DeleteOptions{}))
	note(w.asDatabaseRoot(ctx, "DROP DATABASE IF EXISTS "+releaseDatabase))
	note(os.RemoveAll(w.releaseShare()))
	// A walk that was cut off in the middle leaves a home.
	note(os.RemoveAll(w.home(releaseUser)))
	return errors.Join(faults...)
}
