package projects

import "fmt"

// The conditions of a project. Ready is always there; each of the others only while it is so, with status True.
const (
	ConditionReady                = "Ready"                // everything that the project asks for has been done
	ConditionReservedName         = "ReservedName"         // nothing is made for a project of this name
	ConditionNameTooLong          = "NameTooLong"          // no namespace or node label can bear the name
	ConditionForbidden            = "Forbidden"            // the controller lacks a right
	ConditionQuotaRefused         = "QuotaRefused"         // the API server does not take the quota
	ConditionNamespaceTerminating = "NamespaceTerminating" // the namespace is being deleted
	ConditionDanglingNodes        = "DanglingNodes"        // the binding names nodes that nothing has
	ConditionDanglingGroups       = "DanglingGroups"       // the binding names node groups that nothing has
	ConditionUnknownRoles         = "UnknownRoles"         // members have roles that give no right
)

// Condition is one that holds.
type Condition struct {
	Type    string
	Message string // what is so, and what to do
	// Blocks is set if something that the project asks for is not done because of it.
	Blocks bool
}

// Conditions are those that follow from what a project says, apart from what the API server answers.
func Conditions(p Project, bound Bound, s Settings) []Condition {
	var all []Condition
	add := func(kind string, blocks bool, format string, args ...any) {
		all = append(all, Condition{Type: kind, Message: fmt.Sprintf(format, args...), Blocks: blocks})
	}
	if why := BadName(p.Name, s.Keys); why != "" {
		add(ConditionNameTooLong, true, "Nothing is made: %s. Make the project anew under another name.", why)
	}
	if Reserved(p.Name, s.Reserved) {
		add(ConditionReservedName, true, "Nothing is made for a project called %s. Make it anew under a name that PROJECT_RESERVED does not list.", p.Name)
	}
	if len(bound.NoNodes) > 0 {
		add(ConditionDanglingNodes, false, "There is no node %s. It counts as soon as it is there; else correct the binding.", some(bound.NoNodes))
	}
	if len(bound.NoGroups) > 0 {
		add(ConditionDanglingGroups, false, "There is no node group %s. It counts as soon as it is there; else correct the binding.", some(bound.NoGroups))
	}
	if unknown := UnknownRoles(p); len(unknown) > 0 {
		add(ConditionUnknownRoles, false, "No right comes of these roles: %s. There are %s and %s.", some(unknown), Manager, PlainMember)
	}
	return all
}
