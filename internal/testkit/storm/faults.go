package storm

import (
	"context"
	"testing"
	"time"

	"config-server/internal/testkit"
	"config-server/internal/testkit/kubelet"
)

// Trouble makes faults of all kinds one after the other until ctx ends, then mends them all.
func (s *Storm) Trouble(ctx context.Context) {
	faults := s.faults()
	for ctx.Err() == nil {
		// Each round has every fault once, in another order. Now and then it is calm for longer than
		// faults excuse failures.
		for nth, i := range s.random.Perm(len(faults)) {
			if pause(ctx, s.between(200, 1200)); ctx.Err() != nil {
				break
			}
			over := s.trouble(faults[i].what)
			faults[i].happen(ctx)
			over()
			if nth%7 == 6 {
				pause(ctx, s.opts.Grace+4*time.Second)
			}
		}
	}
}

func (s *Storm) between(least, most int) time.Duration {
	return time.Duration(least+s.random.IntN(most-least)) * time.Millisecond
}

type fault struct {
	what   string
	happen func(ctx context.Context) // it has ended when this returns
}

func (s *Storm) faults() []fault {
	w, t := s.world, s.t
	last := func(ctx context.Context) { pause(ctx, s.between(100, 1500)) }
	during := func(begin, end func()) func(context.Context) {
		return func(ctx context.Context) {
			begin()
			last(ctx)
			end()
		}
	}
	part := func(name string, end func(testing.TB, string)) func(context.Context) {
		return during(func() { end(t, name) }, func() { w.Cluster.Start(t, name) })
	}
	list := []fault{
		{"MariaDB is killed", during(func() { w.MariaDB.Kill(t) }, func() { w.MariaDB.Start(t) })},
		{"MariaDB is stopped", during(func() { w.MariaDB.Stop(t) }, func() { w.MariaDB.Start(t) })},
		{"MariaDB hangs", during(func() { w.MariaDB.Freeze(t) }, func() { w.MariaDB.Thaw(t) })},
		{"MariaDB drops all connections", func(context.Context) { w.MariaDB.KillConnections(t, w.Database) }},
		{"API server is killed", part(testkit.PartAPIServer, w.Cluster.Kill)},
		{"API server is stopped", part(testkit.PartAPIServer, w.Cluster.Stop)},
		{"API server hangs", during(func() { w.Cluster.Freeze(t, testkit.PartAPIServer) }, func() { w.Cluster.Thaw(t, testkit.PartAPIServer) })},
		{"sshd is stopped", during(w.NAS.Stop, func() { w.NAS.Start(t) })},
		{"sshd drops all connections", func(context.Context) { w.NAS.DropConnections() }},
		{"sshd hangs", during(func() { w.NAS.Freeze(t) }, w.NAS.Thaw)},
		{"homes cannot be changed owner", during(
			func() { w.NAS.Fail(t, testkit.SSHFault{Contains: "chown", Exit: 1, Stderr: "chown: denied"}) }, func() { w.NAS.Fail(t) })},
		{"Prometheus is stopped", during(w.Prom.Stop, func() { w.Prom.Start(t) })},
		{"admin_be fails", during(
			func() { w.AdminBE.Set("", testkit.AdminBEAnswer{Status: 500, Body: map[string]any{"status": 500}}) }, s.mendAdminBE)},
		{"admin_be hangs", during(func() { w.AdminBE.Set("", testkit.AdminBEAnswer{Hang: true}) }, s.mendAdminBE)},
		{"images cannot be saved", during(func() { w.Cluster.OnExec(t, kubelet.Result{Exit: 1}) }, func() { w.Cluster.OnExec(t) })},
		{"loads change", func(context.Context) { s.shiftLoads() }},
		{"loads change", func(context.Context) { s.shiftLoads() }},
		{"loads change", func(context.Context) { s.shiftLoads() }},
		{"loads change", func(context.Context) { s.shiftLoads() }},
	}
	for i := range s.instances {
		list = append(list,
			fault{"an instance is killed", func(ctx context.Context) { s.restart(ctx, last, s.kill, i) }},
			fault{"an instance is killed", func(ctx context.Context) { s.restart(ctx, last, s.kill, i) }},
			fault{"an instance is stopped", func(ctx context.Context) { s.restart(ctx, last, s.stop, i) }})
	}
	all := make([]int, len(s.instances))
	for i := range all {
		all[i] = i
	}
	return append(list,
		fault{"all instances are killed", func(ctx context.Context) { s.restart(ctx, last, s.kill, all...) }},
		fault{"an instance starts without MariaDB", func(ctx context.Context) {
			s.kill(0)
			w.MariaDB.Kill(t)
			s.start(0)
			last(ctx)
			w.MariaDB.Start(t)
		}},
		fault{"an instance dies with the API server", func(ctx context.Context) {
			w.Cluster.Kill(t, testkit.PartAPIServer)
			s.kill(len(s.instances) - 1)
			last(ctx)
			w.Cluster.Start(t, testkit.PartAPIServer)
			s.start(len(s.instances) - 1)
		}})
}

func (s *Storm) kill(i int) {
	s.count("process: killed")
	s.instances[i].url.Store("")
	s.instances[i].process.Kill()
}

// stop is SIGTERM: running calls may finish, and the end is an orderly one.
func (s *Storm) stop(i int) {
	s.count("process: stopped")
	process := s.instances[i].process
	process.Term()
	// For a moment callers still come to one that takes no new work, or does not listen any more.
	pause(s.t.Context(), s.between(20, 300))
	s.instances[i].url.Store("")
	if ending := process.Wait(s.t, time.Minute); ending != "exit status 0" {
		s.violate("an instance that was asked to stop ended with %s", ending)
	}
}

func (s *Storm) start(i int) {
	s.count("process: started again")
	s.instances[i].process.Start(s.t)
	s.instances[i].url.Store(s.instances[i].process.URL)
}

func (s *Storm) restart(ctx context.Context, last func(context.Context), end func(int), which ...int) {
	for _, i := range which {
		end(i)
	}
	last(ctx)
	for _, i := range which {
		s.start(i)
	}
}

func (s *Storm) mendAdminBE() { s.world.AdminBE.SetConfig("", nil) }

// shiftLoads makes another node the best one, so that workspaces move.
func (s *Storm) shiftLoads() {
	loads := testkit.GoldenLoads()
	names := []string{"farm5", "farm6", "farm7"}
	by := 1 + s.random.IntN(2)
	turned := map[string][]testkit.GPU{}
	for i, node := range names {
		turned[node] = loads[names[(i+by)%len(names)]]
	}
	s.world.Prom.SetLoads(s.t, turned)
}

// Rollouts replaces one instance by another again and again, as a rollout does: the new one runs
// before the old one is asked to stop. Two instances at least; all but the first are ended at once.
func (s *Storm) Rollouts(ctx context.Context) {
	for i := 1; i < len(s.instances); i++ {
		s.stop(i)
	}
	for old := 0; ctx.Err() == nil; old = (old + 1) % len(s.instances) {
		s.start((old + 1) % len(s.instances))
		s.shiftLoads()
		pause(ctx, s.between(300, 1500))
		s.stop(old)
		s.count("fault: rollout")
		pause(ctx, s.between(300, 1500))
	}
}
