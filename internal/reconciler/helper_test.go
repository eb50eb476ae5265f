package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"config-server/internal/farm"
	"config-server/internal/reconciler"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

const grace = 10 * time.Minute

var (
	old   = now.Add(-time.Hour)
	young = now.Add(-time.Minute)
)

// fakeFarm is the cluster, the table, the records and the locks, in memory. Everything done to it is
// noted.
type fakeFarm struct {
	mu         sync.Mutex
	pods       []farm.Pod
	services   []farm.Service
	rows       []farm.Row
	operations []farm.Operation
	fail       map[string]error // by name of the call
	held       map[string]bool  // locks of others
	did        []string
	// before is called before each call, without the mutex: something happens meanwhile.
	before func(call string)
}

func (f *fakeFarm) call(name string) error {
	if f.before != nil {
		f.before(name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fail[name]
}

func (f *fakeFarm) note(format string, args ...any) {
	f.did = append(f.did, fmt.Sprintf(format, args...))
}

func (f *fakeFarm) Pods(context.Context) ([]farm.Pod, error) {
	err := f.call("Pods")
	return slices.Clone(f.pods), err
}

func (f *fakeFarm) Services(context.Context) ([]farm.Service, error) {
	err := f.call("Services")
	return slices.Clone(f.services), err
}

func (f *fakeFarm) Pod(_ context.Context, name farm.PodName) (farm.Pod, bool, error) {
	if err := f.call("Pod"); err != nil {
		return farm.Pod{}, false, err
	}
	for _, pod := range f.pods {
		if pod.Name == name {
			return pod, true, nil
		}
	}
	return farm.Pod{}, false, nil
}

func (f *fakeFarm) ServicesOf(_ context.Context, pod farm.PodName) ([]farm.Service, error) {
	if err := f.call("ServicesOf"); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(f.services), func(s farm.Service) bool { return s.Pod != pod }), nil
}

func (f *fakeFarm) DeletePod(_ context.Context, name farm.PodName, uid string) (bool, error) {
	if err := f.call("DeletePod"); err != nil {
		return false, err
	}
	f.note("pod %s", name)
	f.pods = slices.DeleteFunc(f.pods, func(p farm.Pod) bool { return p.Name == name && p.UID == uid })
	return true, nil
}

func (f *fakeFarm) DeleteService(_ context.Context, name, uid string) (bool, error) {
	if err := f.call("DeleteService"); err != nil {
		return false, err
	}
	f.note("service %s", name)
	f.services = slices.DeleteFunc(f.services, func(s farm.Service) bool { return s.Name == name && s.UID == uid })
	return true, nil
}

func (f *fakeFarm) Rows(context.Context) ([]farm.Row, error) {
	err := f.call("Rows")
	return slices.Clone(f.rows), err
}

func (f *fakeFarm) RowsOf(_ context.Context, pod farm.PodName) ([]farm.Row, error) {
	if err := f.call("RowsOf"); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(f.rows), func(r farm.Row) bool { return r.Pod != pod }), nil
}

func (f *fakeFarm) Adopt(_ context.Context, rows []farm.Row) (int, error) {
	if err := f.call("Adopt"); err != nil {
		return 0, err
	}
	for _, row := range rows {
		if i := slices.IndexFunc(f.rows, func(r farm.Row) bool { return r.Port.External == row.Port.External }); i >= 0 {
			return 0, fmt.Errorf("port %d: %w", row.Port.External, farm.ErrOwner)
		}
		f.note("row %d of %s", row.Port.External, row.Pod)
		f.rows = append(f.rows, row)
	}
	return len(rows), nil
}

func (f *fakeFarm) ReleaseRows(_ context.Context, rows []farm.Row) (int, error) {
	if err := f.call("ReleaseRows"); err != nil {
		return 0, err
	}
	for _, row := range rows {
		f.note("release %d", row.Port.External)
		f.rows = slices.DeleteFunc(f.rows, func(r farm.Row) bool { return r.ID == row.ID })
	}
	return len(rows), nil
}

func (f *fakeFarm) List(context.Context) ([]farm.Operation, error) {
	err := f.call("List")
	return slices.Clone(f.operations), err
}

func (f *fakeFarm) TryLock(_ context.Context, name string) (farm.Lock, bool, error) {
	if err := f.call("TryLock"); err != nil {
		return nil, false, err
	}
	if f.held[name] {
		return nil, false, nil
	}
	f.held[name] = true
	return &fakeLock{f, name}, true, nil
}

type fakeLock struct {
	farm *fakeFarm
	name string
}

func (l *fakeLock) Unlock()    { delete(l.farm.held, l.name) }
func (l *fakeLock) Err() error { return nil }

func newFarm() *fakeFarm { return &fakeFarm{fail: map[string]error{}, held: map[string]bool{}} }

// workspace puts a whole one there.
func (f *fakeFarm) workspace(user farm.UserName, port int) farm.PodName {
	name := farm.PodName(fmt.Sprintf("ailab-%s-%08x", user, port))
	f.pod(user, name, "Running", old)
	f.service(user, name, port, old)
	f.row(user, name, port, old)
	return name
}

func (f *fakeFarm) pod(user farm.UserName, name farm.PodName, phase string, at time.Time) {
	f.pods = append(f.pods, farm.Pod{Name: name, UID: "uid-" + string(name), User: user, Node: "farm5", Phase: phase, CreatedAt: at})
}

func (f *fakeFarm) service(user farm.UserName, pod farm.PodName, port int, at time.Time) {
	f.services = append(f.services, farm.Service{Name: farm.ServiceName(user, "ssh", port), UID: fmt.Sprint("uid-", port), User: user, Pod: pod,
		Ports: []farm.Port{{Internal: 22, External: port, Purpose: "ssh"}}, CreatedAt: at})
}

func (f *fakeFarm) row(user farm.UserName, pod farm.PodName, port int, at time.Time) {
	f.rows = append(f.rows, farm.Row{ID: int64(port), User: user, Pod: pod, Node: "farm5", Port: farm.Port{Internal: 22, External: port, Purpose: "ssh"}, CreatedAt: at})
}

func (f *fakeFarm) reconciler(tasks ...reconciler.Task) *reconciler.Reconciler {
	return reconciler.New(reconciler.Options{
		Cluster: f, Ports: f, Operations: f, Locks: f, UserLock: farm.UserLock, Tasks: tasks,
		Grace: grace, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
	})
}

var errDown = errors.New("down")
