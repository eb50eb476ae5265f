package testkit

import (
	"path/filepath"
	"strconv"
	"testing"
)

// RedisServer is a running Redis without a password.
type RedisServer struct {
	Host string // always 127.0.0.1
	Port int

	proc *process
}

// Redis starts a server for this test. It keeps nothing over a restart.
func Redis(t testing.TB) *RedisServer {
	t.Helper()
	Need(t, "Redis", "redis-server", "redis-server")
	program, err := lookProgram("redis-server")
	if err != nil {
		t.Fatal(err)
	}
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	dir := testPartDir(t, "redis")
	server := &RedisServer{Host: "127.0.0.1", Port: ports[0]}
	server.proc = &process{
		name: "redis", path: program, dir: dir, log: filepath.Join(dir, "redis.log"),
		args:  []string{"--bind", server.Host, "--port", strconv.Itoa(server.Port), "--save", "", "--appendonly", "no", "--dir", dir},
		ready: dialTCP("127.0.0.1:" + strconv.Itoa(server.Port)),
	}
	manage(t, server.proc)
	return server
}

// Stop ends the server: connecting is refused.
func (s *RedisServer) Stop() { s.proc.stop() }

// Start starts a stopped server again, empty.
func (s *RedisServer) Start(t testing.TB) {
	t.Helper()
	controlled{s.proc}.restart(t)
}

// Freeze makes the server accept connections and never answer, until Thaw.
func (s *RedisServer) Freeze(t testing.TB) {
	t.Helper()
	controlled{s.proc}.freeze(t)
}

// Thaw lets a frozen server go on.
func (s *RedisServer) Thaw(t testing.TB) {
	t.Helper()
	controlled{s.proc}.thaw(t)
}
