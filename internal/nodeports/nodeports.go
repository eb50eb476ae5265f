// Package nodeports hands out the farm's NodePorts and keeps their rows in nodeport_allocations.
//
// A port belongs to a pod as long as it has a row. Ports are given lowest free first, because only
// the lower ones can be reached from outside the farm. Choosing is serialised: within the process
// by a fair queue, between replicas by a locked row; the unique key on node_port is the second line
// against writers that know neither.
package nodeports

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"config-server/internal/database"
	"config-server/internal/farm"
)

// The range that the API server gives NodePorts from, unless Options narrow it.
const (
	DefaultMin = 30000
	DefaultMax = 32767
)

// mutexRow is the row that a replica locks while it chooses ports.
const mutexRow = "nodeports"

// Owner is whose a port is: the user, the pod and the pod's node.
type Owner = farm.PortOwner

// Options of an Allocator.
type Options struct {
	// Min and Max are the lowest and the highest port to give; zero = DefaultMin, DefaultMax.
	Min, Max int
}

// Allocator gives out ports. It is safe for concurrent use, over several replicas too.
type Allocator struct {
	db       *database.DB
	min, max int
	queue    chan struct{} // holds one token: whoever put it there chooses ports; waiters are served in order
}

// New makes an Allocator on a database. It asks nothing of it yet.
func New(db *database.DB, opts Options) *Allocator {
	a := &Allocator{db: db, min: opts.Min, max: opts.Max, queue: make(chan struct{}, 1)}
	if a.min == 0 {
		a.min = DefaultMin
	}
	if a.max == 0 {
		a.max = DefaultMax
	}
	return a
}

// Reserve gives the owner one port for each of wants, in their order, lowest free first, all or
// none. Ports in taken belong to somebody's Service and are skipped. The answer keeps the purposes
// as wanted; rows have at most farm.MaxRowText characters of them, or the purpose's plain label
// where the table cannot hold the text. It fails with farm.ErrPortsExhausted, wrapped, when too
// few ports are free, and with the database's error.
func (a *Allocator) Reserve(ctx context.Context, owner Owner, wants []farm.PortWant, taken map[int]bool) ([]farm.Port, error) {
	if len(wants) == 0 {
		return nil, nil
	}
	fail := func(err error) ([]farm.Port, error) {
		return nil, fmt.Errorf("reserve %d NodePorts of %d..%d for pod %s: %w", len(wants), a.min, a.max, owner.Pod, err)
	}
	leave, err := a.enter(ctx)
	if err != nil {
		return fail(err)
	}
	defer leave()

	var ports []farm.Port
	reserve := func(ctx context.Context, tx *sql.Tx) error {
		if err := a.db.LockRow(ctx, tx, mutexRow); err != nil {
			return err
		}
		free, err := a.lowestFree(ctx, tx, len(wants), taken)
		if err != nil {
			return err
		}
		ports = make([]farm.Port, len(wants))
		for i, want := range wants {
			ports[i] = farm.Port{Internal: want.Internal, External: free[i], Purpose: want.Purpose}
		}
		return a.insert(ctx, tx, owner, ports)
	}
	err = a.db.InTx(ctx, txReserve, reserve)
	if errors.Is(err, database.ErrCommitUnknown) {
		err = a.settle(ctx, owner, ports, reserve)
	}
	if err != nil {
		return fail(err)
	}
	return ports, nil
}

// The transactions that choose ports, by the names that the database's observers are told.
const (
	txReserve = "reserve_ports"
	txSettle  = "settle_ports"
	txReplace = "replace_port"
)

// Reserves reports whether a transaction of that name chooses ports.
func Reserves(tx string) bool { return tx == txReserve || tx == txSettle || tx == txReplace }

// settle ends a reservation whose commit had no answer. With the lock row in hand the lost
// transaction is over, so the rows tell whether it was kept; if not, it is run once more.
func (a *Allocator) settle(ctx context.Context, owner Owner, ports []farm.Port, reserve func(context.Context, *sql.Tx) error) error {
	return a.db.InTx(ctx, txSettle, func(ctx context.Context, tx *sql.Tx) error {
		if err := a.db.LockRow(ctx, tx, mutexRow); err != nil {
			return err
		}
		rows, err := queryRows(ctx, tx, "WHERE pod_name = ? ORDER BY node_port", owner.Pod)
		if err != nil {
			return err
		}
		for _, port := range ports {
			if !slices.ContainsFunc(rows, func(row farm.Row) bool { return row.Port.External == port.External }) {
				return reserve(ctx, tx)
			}
		}
		return nil
	})
}

// Replace gives the owner another port for old, which the API server says is somebody else's: the
// row moves to the next free port above it, or to the lowest free one if there is none above. Ports
// in taken, and old itself, are not given. If the row is gone a new one is made. It fails like
// Reserve; then the row stays.
func (a *Allocator) Replace(ctx context.Context, owner Owner, old farm.Port, taken map[int]bool) (farm.Port, error) {
	fail := func(err error) (farm.Port, error) {
		return farm.Port{}, fmt.Errorf("replace NodePort %d of pod %s: %w", old.External, owner.Pod, err)
	}
	leave, err := a.enter(ctx)
	if err != nil {
		return fail(err)
	}
	defer leave()

	fresh := old
	err = a.db.InTx(ctx, txReplace, func(ctx context.Context, tx *sql.Tx) error {
		if err := a.db.LockRow(ctx, tx, mutexRow); err != nil {
			return err
		}
		next, err := a.nextFree(ctx, tx, old.External, taken)
		if err != nil {
			return err
		}
		fresh.External = next
		result, err := tx.ExecContext(ctx, "UPDATE nodeport_allocations SET node_port = ? WHERE pod_name = ? AND node_port = ?",
			next, string(owner.Pod), old.External)
		if err != nil {
			return err
		}
		moved, err := result.RowsAffected()
		if err != nil || moved > 0 {
			return err
		}
		return a.insert(ctx, tx, owner, []farm.Port{fresh})
	})
	if err != nil {
		return fail(err)
	}
	return fresh, nil
}

// Reserved lists the ports of the range that have a row.
func (a *Allocator) Reserved(ctx context.Context) ([]int, error) {
	var ports []int
	err := a.db.Read(ctx, "list_reserved_ports", func(ctx context.Context, q database.Queryer) error {
		ports = nil
		rowed, err := a.rowed(ctx, q)
		for i, reserved := range rowed {
			if reserved {
				ports = append(ports, a.min+i)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list reserved NodePorts: %w", err)
	}
	return ports, nil
}

// enter waits for this caller's turn to choose.
func (a *Allocator) enter(ctx context.Context) (leave func(), err error) {
	select {
	case a.queue <- struct{}{}:
		return func() { <-a.queue }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for other reservations: %w", context.Cause(ctx))
	}
}

// lowestFree finds the n lowest ports without a row that are not in taken.
func (a *Allocator) lowestFree(ctx context.Context, tx *sql.Tx, n int, taken map[int]bool) ([]int, error) {
	rowed, err := a.rowed(ctx, tx)
	if err != nil {
		return nil, err
	}
	free := make([]int, 0, n)
	for port := a.min; port <= a.max && len(free) < n; port++ {
		if !rowed[port-a.min] && !taken[port] {
			free = append(free, port)
		}
	}
	if len(free) < n {
		return nil, fmt.Errorf("%w (%d left)", farm.ErrPortsExhausted, len(free))
	}
	return free, nil
}

func (a *Allocator) nextFree(ctx context.Context, tx *sql.Tx, old int, taken map[int]bool) (int, error) {
	rowed, err := a.rowed(ctx, tx)
	if err != nil {
		return 0, err
	}
	size := a.max - a.min + 1
	first := 0
	if old >= a.min && old < a.max {
		first = old + 1 - a.min
	}
	for i := range size {
		port := a.min + (first+i)%size
		if port != old && !rowed[port-a.min] && !taken[port] {
			return port, nil
		}
	}
	return 0, farm.ErrPortsExhausted
}

// rowed tells for each port of the range, counted from its beginning, whether it has a row. Rows
// are not locked here: whoever adds one holds the lock row, and a row that is being removed may be
// seen as still there.
func (a *Allocator) rowed(ctx context.Context, q database.Queryer) ([]bool, error) {
	rows, err := q.QueryContext(ctx, "SELECT node_port FROM nodeport_allocations WHERE node_port BETWEEN ? AND ?", a.min, a.max)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	rowed := make([]bool, a.max-a.min+1)
	for rows.Next() {
		var port int
		if err := rows.Scan(&port); err != nil {
			return nil, err
		}
		rowed[port-a.min] = true
	}
	return rowed, rows.Err()
}

// insert adds one row a port. A table made by hand may be unable to hold a purpose's letters, or
// its length; then that row alone gets the plain label.
func (a *Allocator) insert(ctx context.Context, tx *sql.Tx, owner Owner, ports []farm.Port) error {
	rows := make([]farm.Row, len(ports))
	for i, port := range ports {
		rows[i] = farm.Row{User: owner.User, Pod: owner.Pod, Node: owner.Node, Port: port}
	}
	err := insertRows(ctx, tx, rows)
	if !database.IsUnstorable(err) {
		return err
	}
	for _, row := range rows {
		if err := insertStorable(ctx, tx, row); err != nil {
			return err
		}
	}
	return nil
}

func insertStorable(ctx context.Context, tx *sql.Tx, row farm.Row) error {
	err := insertRows(ctx, tx, []farm.Row{row})
	if !database.IsUnstorable(err) {
		return err
	}
	row.Port.Purpose = farm.PurposeLabel(row.Port.Purpose)
	return insertRows(ctx, tx, []farm.Row{row})
}

func insertRows(ctx context.Context, tx *sql.Tx, rows []farm.Row) error {
	const columns = "INSERT INTO nodeport_allocations (username, pod_name, node_name, internal_port, node_port, purpose) VALUES "
	args := make([]any, 0, 6*len(rows))
	for _, row := range rows {
		args = append(args, string(row.User), string(row.Pod), string(row.Node), row.Port.Internal, row.Port.External, rowText(row.Port.Purpose))
	}
	values := strings.Repeat("(?, ?, ?, ?, ?, ?), ", len(rows))
	_, err := tx.ExecContext(ctx, columns+strings.TrimSuffix(values, ", "), args...)
	return err
}

// rowText is a purpose as its row has it.
func rowText(purpose string) string {
	return farm.CutText(strings.ToValidUTF8(purpose, "\uFFFD"), farm.MaxRowText)
}
