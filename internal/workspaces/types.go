// Package workspaces has the use cases on workspaces: create, delete and migrate.
//
// A workspace is a user's pod with its NodePort Services and their rows in the database. Each use
// case runs as named steps with undo (package saga) and calls its parts through the small
// interfaces declared here.
package workspaces

import "config-server/internal/farm"

// CreateRequest asks for a workspace.
type CreateRequest struct {
	User string
	// GPUOption is the ID of a GPU option; empty = the one that the user configuration names, if any.
	GPUOption string
}

// Created is the outcome of Create.
type Created struct {
	Node     farm.NodeName
	Pod      farm.PodName
	Ports    []farm.Port
	Warnings []string // what did not go as wished without being a failure
}

// Deleted is the outcome of Delete.
type Deleted struct {
	Pod           farm.PodName
	AlreadyAbsent bool            // the pod did not exist
	Progress      map[string]bool // farm.Key* -> none is left
	Warnings      []string
}

// MigrateRequest asks to move a user's running workspace to a better node.
type MigrateRequest struct {
	User  string
	Nodes []string // candidates; the present node must be among them
	// Ratio in [0,1) is the part by which the best candidate's score must be lower.
	Ratio float64
}

// The values of Migrated.Status and Migrated.Reason.
const (
	StatusMigrated                 = "migrated"
	StatusSkipped                  = "skipped"
	ReasonNoCandidate              = "no_candidate_node"
	ReasonNoSignificantImprovement = "no_significant_improvement"
)

// Migrated is the outcome of Migrate. Reason and the scores are set when it was skipped.
type Migrated struct {
	Status        string
	Reason        string
	From, To      farm.NodeName
	NewPod        farm.PodName
	Ports         []farm.Port
	CurrentNode   farm.NodeName
	BestCandidate farm.NodeName
	CurrentScore  *float64 // nil = unknown
	BestScore     *float64
	Warnings      []string
}
