package farm

// ExecResult is what a command that ran in a container left behind. A command that ran and failed
// is a result, not an error.
type ExecResult struct {
	ExitCode int
	// Stdout and Stderr are the last bytes of each stream; longer output loses its beginning.
	Stdout string
	Stderr string
}

// PodEnd is how the container of a pod ended.
type PodEnd struct {
	ExitCode int
	// Message is what the container left as its last words, or why it was ended.
	Message string
}
