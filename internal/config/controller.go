package config

import (
	"fmt"
	"log/slog"
	"net"
	"strconv"
)

// Controller says how projects are followed, beside what Projects says.
type Controller struct {
	// ListenAddr is host:port of the controller's /metrics and /healthz.
	ListenAddr string `env:"CONTROLLER_LISTEN_ADDR" envDefault:":8081"`
	// QueueList is off, or byname: members may list their own queue by its name.
	QueueList string `env:"QUEUE_LIST" envDefault:"off"`
}

// QueueListByName is the value of QUEUE_LIST that lets members list their own queue.
const QueueListByName = "byname"

// LoadController reads the variables that the controller of projects needs, and asks for none of those that the service needs. The
// error joins every fault that was found.
func LoadController(environ []string) (Config, error) { return load(environ, Config.controllerFaults) }

// controllerFaults checks what the controller uses.
func (c Config) controllerFaults() []error {
	list := append(c.Projects.faults(), c.Controller.faults()...)
	if !namespaceRule.MatchString(c.Namespace) {
		list = append(list, fmt.Errorf("NAMESPACE: %q is not a DNS label", c.Namespace))
	}
	var level slog.Level
	if level.UnmarshalText([]byte(c.LogLevel)) != nil {
		list = append(list, fmt.Errorf("LOG_LEVEL: %q is not debug, info, warn or error", c.LogLevel))
	}
	if c.Projects.Source == ProjectsOfLedger {
		if err := checkDir(c.Share.Dir); err != nil {
			list = append(list, fmt.Errorf("BASE_ETC_DIR: %w", err))
		}
	}
	return list
}

func (c Controller) faults() []error {
	var list []error
	if _, port, err := net.SplitHostPort(c.ListenAddr); err != nil {
		list = append(list, fmt.Errorf("CONTROLLER_LISTEN_ADDR: %q is not host:port", c.ListenAddr))
	} else if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		list = append(list, fmt.Errorf("CONTROLLER_LISTEN_ADDR: %q has no port in 0..65535", c.ListenAddr))
	}
	if c.QueueList != "off" && c.QueueList != QueueListByName {
		list = append(list, fmt.Errorf("QUEUE_LIST: %q is not one of off, byname", c.QueueList))
	}
	return list
}
