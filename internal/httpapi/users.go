package httpapi

import (
	"net/http"

	"config-server/internal/farm"
)

// account is a passwd(5) line as callers read it. Password is told only by PUT, where it is "x".
type account struct {
	Name     farm.UserName `json:"name"`
	Password string        `json:"passwd,omitempty"`
	UID      farm.ID       `json:"uid"`
	GID      farm.ID       `json:"gid"`
	Gecos    string        `json:"gecos"`
	Home     string        `json:"home"`
	Shell    string        `json:"shell"`
}

func accountJSON(a farm.Account) account {
	return account{Name: a.Name, UID: a.UID, GID: a.GID, Gecos: a.Gecos, Home: a.Home, Shell: a.Shell}
}

// membership is one group of a user.
type membership struct {
	Name farm.GroupName `json:"name"`
	GID  farm.ID        `json:"gid"`
	Type string         `json:"type"` // primary or supplementary
}

// getUser answers GET /accounts/users/{name}.
func (a *api) getUser(w http.ResponseWriter, r *http.Request) error {
	name, err := pathName(r)
	if err != nil {
		return err
	}
	user, groups, err := a.Accounts.User(r.Context(), name)
	if err != nil {
		return err
	}
	told := make([]membership, len(groups))
	for i, group := range groups {
		told[i] = membership{Name: group.Name, GID: group.GID, Type: group.Type}
	}
	return write(w, http.StatusOK, object{"user": accountJSON(user), "groups": told})
}

// createUser answers PUT /accounts/users.
func (a *api) createUser(w http.ResponseWriter, r *http.Request) error {
	request, err := a.readNewUser(w, r)
	if err != nil {
		return err
	}
	made, err := a.Accounts.CreateUser(r.Context(), request)
	if err != nil {
		return err
	}
	user := accountJSON(made.Account)
	user.Password = "x"
	answer := object{"status": "created", "user": user, "group": groupJSON(made.Group),
		"supplementary_groups": groupsJSON(made.Supplementary), "sudoers": nil}
	if made.Sudoers != "" {
		answer["sudoers"] = made.Sudoers
	}
	return write(w, http.StatusCreated, answer)
}

// deleteUser answers DELETE /accounts/users/{name}.
func (a *api) deleteUser(w http.ResponseWriter, r *http.Request) error {
	name, err := pathName(r)
	if err != nil {
		return err
	}
	gone, err := a.Accounts.DeleteUser(r.Context(), name)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, addWarnings(object{"status": "deleted", "user": name}, gone.Warnings))
}

// joinGroups answers PUT /accounts/users/{name}/groups.
func (a *api) joinGroups(w http.ResponseWriter, r *http.Request) error {
	name, err := pathName(r)
	if err != nil {
		return err
	}
	groups, err := a.readJoin(w, r)
	if err != nil {
		return err
	}
	joined, err := a.Accounts.JoinGroups(r.Context(), name, groups)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, object{"status": "updated", "user": name, "groups": list(joined)})
}

func (a *api) readJoin(w http.ResponseWriter, r *http.Request) ([]string, error) {
	in, err := a.read(w, r)
	if err != nil {
		return nil, err
	}
	groups, ok := asTexts(in["groups"])
	if !ok || len(groups) == 0 {
		return nil, farm.Errorf(farm.Invalid, "'groups' list is required")
	}
	return groups, nil
}
