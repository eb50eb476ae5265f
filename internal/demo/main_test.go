package demo

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is a farm that ends with the test.
func start(t *testing.T, opts Options) *Surroundings {
	t.Helper()
	s, err := Start(opts)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// variable is the value of one variable of the surroundings' environment.
func variable(t *testing.T, s *Surroundings, name string) string {
	t.Helper()
	for _, pair := range s.Environ() {
		if len(pair) > len(name) && pair[:len(name)+1] == name+"=" {
			return pair[len(name)+1:]
		}
	}
	t.Fatalf("the environment has no %s", name)
	return ""
}
