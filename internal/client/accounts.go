package client

import "context"

// User is an account.
type User struct {
	Name  string `json:"name"`
	UID   int64  `json:"uid"`
	GID   int64  `json:"gid"`
	Gecos string `json:"gecos"`
	Home  string `json:"home"`
	Shell string `json:"shell"`
}

// Users is the answer of GET /accounts/users, in file order.
type Users struct {
	Users []User `json:"users"`
}

// Users lists all accounts, those of the base system included.
func (c *Client) Users(ctx context.Context) (Users, error) {
	var list Users
	err := c.get(ctx, &list, nil, "accounts", "users")
	return list, err
}

// Group is a group with the users that its line lists.
type Group struct {
	Name    string   `json:"name"`
	GID     int64    `json:"gid"`
	Members []string `json:"members"`
}

// Groups is the answer of GET /accounts/groups, in file order.
type Groups struct {
	Groups []Group `json:"groups"`
}

// Groups lists all groups, those of the base system included.
func (c *Client) Groups(ctx context.Context) (Groups, error) {
	var list Groups
	err := c.get(ctx, &list, nil, "accounts", "groups")
	return list, err
}
