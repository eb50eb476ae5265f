package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"config-server/internal/accounts"
	"config-server/internal/farm"
)

// group is a group's name and number as callers read it.
type group struct {
	Name farm.GroupName `json:"name"`
	GID  farm.ID        `json:"gid"`
}

// groupWithMembers is a line of the group file as callers read it.
type groupWithMembers struct {
	group
	Members []farm.UserName `json:"members"`
}

func groupJSON(g farm.GroupRef) group { return group(g) }

func groupsJSON(groups []farm.GroupRef) []group {
	told := make([]group, len(groups))
	for i, g := range groups {
		told[i] = groupJSON(g)
	}
	return told
}

// createGroup answers PUT /accounts/groups.
func (a *api) createGroup(w http.ResponseWriter, r *http.Request) error {
	request, err := a.readNewGroup(w, r)
	if err != nil {
		return err
	}
	made, err := a.Accounts.CreateGroup(r.Context(), request)
	if err != nil {
		return err
	}
	return write(w, http.StatusCreated, object{"group": groupJSON(made)})
}

// readNewGroup takes the body of PUT /accounts/groups. Callers see the first fault in this order:
// name, gid, members.
func (a *api) readNewGroup(w http.ResponseWriter, r *http.Request) (accounts.NewGroup, error) {
	var none accounts.NewGroup
	in, err := a.read(w, r)
	if err != nil {
		return none, err
	}
	if len(in.missing("name")) > 0 {
		return none, farm.Errorf(farm.Invalid, "missing fields: name")
	}
	name, err := in.text("name")
	if err != nil {
		return none, err
	}
	gid, ok := asChosenID(in["gid"])
	if !ok {
		return none, farm.Errorf(farm.Invalid, "gid must be an integer")
	}
	members, err := asMembers(in["members"])
	if err != nil {
		return none, err
	}
	return accounts.NewGroup{Name: name, GID: gid, Members: members}, nil
}

// asChosenID decodes a gid that the caller may leave to the service: left out or "" gives nil.
func asChosenID(raw json.RawMessage) (*farm.ID, bool) {
	if raw == nil || string(raw) == `""` {
		return nil, true
	}
	id, ok := asID(raw)
	return &id, ok
}

// asMembers decodes a list of names. Items that are no strings are told like users that do not
// exist, because that is how callers recognise a refused member; they are never read as the name
// that they look like.
func asMembers(raw json.RawMessage) ([]string, error) {
	if raw == nil {
		return nil, nil
	}
	items, ok := asList(raw)
	if !ok {
		return nil, farm.Errorf(farm.Invalid, "members must be a list")
	}
	members := make([]string, 0, len(items))
	var bad []string
	for _, item := range items {
		name, ok := asText(item)
		if !ok {
			bad = append(bad, showJSON(item))
			continue
		}
		members = append(members, name)
	}
	if len(bad) > 0 {
		return nil, farm.Errorf(farm.Invalid, "invalid members (users not found): %s", strings.Join(bad, ", "))
	}
	return members, nil
}

// showJSON shows a malformed item on one line, shortened.
func showJSON(raw json.RawMessage) string {
	var line bytes.Buffer
	if json.Compact(&line, raw) != nil {
		return "?"
	}
	return farm.CutText(line.String(), farm.MaxLabel)
}

// deleteGroup answers DELETE /accounts/groups/{name}.
func (a *api) deleteGroup(w http.ResponseWriter, r *http.Request) error {
	name, err := pathName(r)
	if err != nil {
		return err
	}
	gone, err := a.Accounts.DeleteGroup(r.Context(), name)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, object{"status": "deleted", "group": gone.Name, "gid": gone.GID})
}
