// Package kerberos makes and removes what a user needs to mount a home with Kerberos: a principal
// with its keytab, and the keytab's place on farm nodes. Without a realm nothing of it is done.
package kerberos

import (
	"context"

	"config-server/internal/farm"
)

// Off is Kerberos switched off (KRB5_REALM empty): every call succeeds and does nothing. Its zero
// value is ready for use and safe for concurrent calls.
type Off struct{}

// Enabled reports that pods get no Kerberos fields.
func (Off) Enabled() bool { return false }

// Principal is the name in the KDC that belongs to a user: empty, because there is no realm.
func (Off) Principal(farm.UserName) string { return "" }

// Existing says that nothing is missing: a creation has nothing to make and nothing to withdraw.
func (Off) Existing(context.Context, farm.UserName) (principal, keytab bool, err error) {
	return true, true, nil
}

// CreatePrincipal makes the user's principal and keytab; here nothing. It never fails.
func (Off) CreatePrincipal(context.Context, farm.UserName) error { return nil }

// Withdraw takes back what a creation made; here nothing. It never fails.
func (Off) Withdraw(context.Context, farm.UserName, bool, bool) error { return nil }

// RemoveUser removes the user's principal, keytab and what farm nodes hold; here nothing. It never
// fails.
func (Off) RemoveUser(context.Context, farm.UserName, farm.ID) error { return nil }

// Deploy brings the user's keytab to a farm node before a pod is made there; here nothing. It
// never fails.
func (Off) Deploy(context.Context, farm.NodeName, farm.UserName, farm.ID) error { return nil }

// Remove takes the user's keytab from a farm node; here nothing. It never fails.
func (Off) Remove(context.Context, farm.NodeName, farm.UserName) error { return nil }

// Left lists the keytabs that are still to be removed from farm nodes: none. It never fails.
func (Off) Left(context.Context) ([]farm.KeytabLeft, error) { return nil, nil }

// Keep strikes a keytab from that list; here nothing. It never fails.
func (Off) Keep(context.Context, farm.KeytabLeft) error { return nil }
