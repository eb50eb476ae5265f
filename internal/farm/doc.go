// Package farm is the domain of the service: the names, numbers and objects of a GPU farm, the
// rules that they keep, and the kinds, steps and codes by which a failure is told to a caller.
//
// Everything here is plain data and pure functions. The package does no I/O and knows neither
// HTTP nor Kubernetes nor SQL; use cases and adapters speak to one another in its words.
package farm
