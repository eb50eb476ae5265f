// Package testkit starts the real parts that the service speaks to, for tests only: MariaDB, an
// OpenSSH server that plays the NAS, etcd with a kube-apiserver and kwok, Prometheus and Redis. It
// also has a stand-in for admin_be, the golden-file helper and faults to inject.
//
// Every starter skips the test under -short with a reason and fails it when a program is missing:
// a test run that is not short never skips. The costly parts (MariaDB, the cluster) are started once
// for a process, or once for a whole run when command internal/testkit/parts started the tests;
// their tests are kept apart by fresh databases and namespaces. Starters whose names begin with Own
// give the test parts of its own, which it may stop, kill and start again.
//
// Whatever a test process starts dies with it, by the kernel's parent-death signal, and the folders
// of processes that are gone are removed by the next one that starts a part.
package testkit
