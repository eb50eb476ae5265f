package app

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"config-server/internal/accounts"
	"config-server/internal/farm"
	"config-server/internal/kerberos"
	"config-server/internal/obs"
	"config-server/internal/reconciler"
	"config-server/internal/remote"
	"config-server/internal/workspaces"
)

// farmCommandLimit bounds one command on a farm node. It writes a small file there, or removes one.
const farmCommandLimit = 10 * time.Second

// keytabs is Kerberos as both use cases want it: a *kerberos.Realm or kerberos.Off.
type keytabs interface {
	accounts.Kerberos
	workspaces.Kerberos
}

// farmNode is a farm node with its connection.
type farmNode struct {
	name    string
	address string
	client  *remote.Client
}

// openKerberos switches Kerberos on where there is a realm.
func (a *App) openKerberos(p *parts) (keytabs, error) {
	c := a.config
	if c.Kerberos.Realm == "" {
		return kerberos.Off{}, nil
	}
	var nodes []kerberos.Node
	for _, node := range c.Farm.Nodes {
		client, err := remote.New(remote.Options{
			Host: node.Host, Port: node.Port, User: c.Farm.SSHUser, KeyPath: c.Farm.SSHKeyPath, KnownHosts: c.Farm.KnownHosts,
			CommandTimeout: farmCommandLimit, Log: a.log,
			Connected: func(again bool, err error) { p.metrics.SSHConnect(obs.SSHFarm, again, err) }, Called: p.metrics.Calls(obs.PartFarm, a.log),
		})
		if err != nil {
			return nil, fmt.Errorf("FARM_NODES_JSON: node %s: %w", node.Name, err)
		}
		a.cleanups.add("connection to farm node "+node.Name, func(context.Context) error { return client.Close() })
		nodes = append(nodes, kerberos.Node{Name: farm.NodeName(node.Name), Runner: client})
		p.farmNodes = append(p.farmNodes, farmNode{node.Name, net.JoinHostPort(node.Host, strconv.Itoa(node.Port)), client})
	}
	realm, err := kerberos.New(kerberos.Options{
		Realm: c.Kerberos.Realm, KDCHost: c.Kerberos.KDCHost, ConfigFile: c.Kerberos.ConfigFile,
		AdminPrincipal: c.Kerberos.AdminPrincipal, AdminPassword: c.Kerberos.AdminPassword,
		Secrets: p.cluster, Nodes: nodes, Pending: kerberos.NewTable(p.database), Point: crashPoint, Called: p.metrics.Calls(obs.PartKDC, a.log), Log: a.log,
	})
	if err != nil {
		return nil, err
	}
	p.realm = realm
	return realm, nil
}

// tasks are what each pass of the reconciler mends first.
func (p *parts) tasks() []reconciler.Task {
	tasks := []reconciler.Task{
		{Name: "accounts", Run: p.recoverAccounts}, {Name: "workspaces", Run: p.recoverWorkspaces}, {Name: "progress", Run: p.tidyProgress},
		{Name: "exports", Run: p.catalog.RemoveLeft, Preview: p.catalog.PreviewLeft},
	}
	if p.realm != nil {
		tasks = append(tasks, reconciler.Task{Name: "keytabs", Run: p.workspaces.RemoveLeftKeytabs})
	}
	return tasks
}

// krb5Checks look at the KDC and at each farm node.
func (a *App) krb5Checks() []partCheck {
	c, p := a.config, a.parts
	if p.realm == nil {
		return nil
	}
	list := []partCheck{{CheckResult{Part: "KDC", Object: fmt.Sprintf("%s@%s, realm %s", c.Kerberos.AdminPrincipal, c.Kerberos.KDCHost, c.Kerberos.Realm),
		Remedy: "Are kadmind and the KDC up, does krb5.conf name them, are KRB5_ADMIN_PRINCIPAL and KRB5_ADMIN_PASSWORD right, and may that principal inquire, add, modify and delete (kadm5.acl)?"}, p.realm.Check}}
	for _, node := range p.farmNodes {
		list = append(list, partCheck{CheckResult{Part: "farm node", Object: fmt.Sprintf("%s, %s@%s", node.name, c.Farm.SSHUser, node.address),
			Remedy: "Is its sshd up, and may FARM_SSH_USER log in with the key at FARM_SSH_KEY_PATH?"}, node.client.Reach})
	}
	return list
}
