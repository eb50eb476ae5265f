package config

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// homePath is where workspaces have the homes, and where the service has them unless it is told otherwise.
const homePath = "/home"

// selfFaults checks Self: variable -> what is wrong with it.
func (c Config) selfFaults() map[string]string {
	faults := map[string]string{}
	if len(c.Self.Paths) > 0 && c.Pods.HomeVolume != "self" {
		faults["SELF_PATHS"] = "needs HOME_VOLUME=self"
	}
	seen := []string{homePath}
	for _, dir := range c.Self.Paths {
		clean := path.Clean(dir)
		switch err := checkDir(dir); {
		case err != nil:
			faults["SELF_PATHS"] = err.Error()
		case slices.Contains(seen, clean):
			faults["SELF_PATHS"] = fmt.Sprintf("workspaces would have %s twice", clean)
		case strings.Contains(dir, ":"):
			faults["SELF_PATHS"] = fmt.Sprintf("%q has a colon, with which Kubernetes mounts nothing", dir)
		}
		seen = append(seen, clean)
	}
	if c.Self.PodName != "" && len(validation.IsDNS1123Subdomain(c.Self.PodName)) > 0 {
		faults["POD_NAME"] = fmt.Sprintf("%q is no name of a pod", c.Self.PodName)
	}
	if _, err := netip.ParseAddr(c.Self.PodIP); err != nil && c.Self.PodIP != "" {
		faults["POD_IP"] = fmt.Sprintf("%q is no IP address", c.Self.PodIP)
	}
	return faults
}

// OwnHomes is the folder of the homes in the service's own container, as HOME_VOLUME=self looks it up.
func (c Config) OwnHomes() string {
	if c.Pods.HomeRoot != "" {
		return c.Pods.HomeRoot
	}
	return homePath
}
