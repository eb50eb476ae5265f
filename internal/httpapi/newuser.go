package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"config-server/internal/accounts"
	"config-server/internal/farm"
)

const (
	textBadPassword = "invalid passwd_base64"
	textBadGroups   = "supplementary_groups must be list of {name, gid}"
)

// readNewUser takes the body of PUT /accounts/users. Callers see the first fault in this order:
// missing fields, supplementary_groups, passwd_base64, texts of another type.
func (a *api) readNewUser(w http.ResponseWriter, r *http.Request) (accounts.NewUser, error) {
	var none accounts.NewUser
	in, err := a.read(w, r)
	if err != nil {
		return none, err
	}
	if missing := missingUserFields(in); len(missing) > 0 {
		return none, farm.Errorf(farm.Invalid, "missing fields: %s", strings.Join(missing, ", "))
	}
	groups, ok := asGroups(in["supplementary_groups"])
	if !ok {
		return none, farm.Errorf(farm.Invalid, textBadGroups)
	}
	password, ok := asPassword(in["passwd_base64"])
	if !ok {
		return none, farm.Errorf(farm.Invalid, textBadPassword)
	}
	user := accounts.NewUser{Password: password, Supplementary: groups}
	for _, member := range []struct {
		name string
		into *string
	}{{"name", &user.Name}, {"gecos", &user.Gecos}, {"primary_group_name", &user.PrimaryGroup}} {
		if *member.into, err = in.text(member.name); err != nil {
			return none, err
		}
	}
	return user, nil
}

// missingUserFields is the list of what PUT /accounts/users cannot do without. An empty
// passwd_base64 is there, and is refused as an empty password.
func missingUserFields(in fields) []string {
	missing := in.missing("name")
	if _, ok := in["passwd_base64"]; !ok {
		missing = append(missing, "passwd_base64")
	}
	return missing
}

// asPassword decodes strict base64 (padding, no white space, no stray bits) of a password that the
// accounts accept: UTF-8 that is not empty and has neither NUL nor a line break.
func asPassword(raw json.RawMessage) ([]byte, bool) {
	encoded, ok := asText(raw)
	// The decoder skips line breaks even when it is strict.
	if !ok || strings.ContainsAny(encoded, "\r\n") {
		return nil, false
	}
	password, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || accounts.CheckPassword(password) != nil {
		return nil, false
	}
	return password, true
}

// asGroups decodes a list of {name, gid}; a list that is left out is empty.
func asGroups(raw json.RawMessage) ([]farm.GroupRef, bool) {
	if raw == nil {
		return nil, true
	}
	items, ok := asList(raw)
	if !ok {
		return nil, false
	}
	groups := make([]farm.GroupRef, len(items))
	for i, item := range items {
		if groups[i], ok = asGroup(item); !ok {
			return nil, false
		}
	}
	return groups, true
}

func asGroup(raw json.RawMessage) (farm.GroupRef, bool) {
	var in fields
	if json.Unmarshal(raw, &in) != nil || in == nil {
		return farm.GroupRef{}, false
	}
	name, named := asText(in["name"])
	gid, numbered := asID(in["gid"])
	return farm.GroupRef{Name: farm.GroupName(name), GID: gid}, named && numbered && name != ""
}
