package accounts

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"config-server/internal/farm"
	"config-server/internal/ledger"
)

// checkPossible refuses a name that cannot stand in the ledger, whatever the ledger has.
func checkPossible(what, name string) error {
	if err := farm.CheckPossible(name); err != nil {
		return &farm.Error{Kind: farm.Invalid, Detail: "invalid " + what + " name: " + err.Error()}
	}
	return nil
}

// checkNew refuses a name that nothing new may have.
func checkNew(what, name string) error {
	if err := farm.CheckNew(name); err != nil {
		return &farm.Error{Kind: farm.Invalid, Detail: "invalid " + what + " name: " + err.Error()}
	}
	return nil
}

// findUser finds an account by a possible name. A name that is not there is NotFound only if it
// could be there: callers read NotFound as "done", which a name that breaks the rule never is.
func findUser(view *ledger.View, name string) (farm.Account, error) {
	if account, ok := view.User(farm.UserName(name)); ok {
		return account, nil
	}
	if err := checkNew("user", name); err != nil {
		return farm.Account{}, err
	}
	return farm.Account{}, farm.Errorf(farm.NotFound, "user not found")
}

// checkFree refuses a new name that belongs to the base system or to the images.
func (s *Service) checkFree(what, name string) error {
	if farm.IsBaseName(name) {
		return farm.Errorf(farm.Invalid, "invalid %s name: %s belongs to the base system", what, name)
	}
	if s.opts.Ledger.Reserved(name) {
		return farm.Errorf(farm.Invalid, "invalid %s name: %s is reserved", what, name)
	}
	return nil
}

// checkText refuses a text that would break out of its field. Commas, spaces and every script are
// fine in it.
func checkText(field, text string) error {
	bad := func(r rune) bool {
		return r == ':' || unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, bad) {
		return farm.Errorf(farm.Invalid, "invalid %s: it has a colon, a line break or another control character", field)
	}
	return nil
}
