package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"config-server/internal/farm"
)

// Tx is an update in the making: the state under the lock, and edits in memory. Reading always
// shows the state before the edits. It must not be used after its Update returned.
type Tx struct {
	ledger  *Ledger
	view    *View
	entries []Entry
	retired *retirements

	passwd, group, shadow, retiredText document

	sudoers map[string]*string // name -> policy; nil = none
	put     []Entry
	dropped []string
	// removing: an account goes, so passwd is the first file to be replaced.
	removing bool
}

// document is a file and its edited text.
type document struct {
	file      string
	id        identity // as it was read
	old, text string
	mode      fs.FileMode // for a file that does not exist yet
}

func (d *document) changed() bool { return d.text != d.old }

func (l *Ledger) begin(ctx context.Context) (*Tx, error) {
	view, err := l.View(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := l.Entries(ctx)
	if err != nil {
		return nil, err
	}
	retired, retiredID, err := l.loadRetired()
	if err != nil {
		return nil, err
	}
	return &Tx{
		ledger: l, view: view, entries: entries, retired: retired,
		passwd:      document{file: passwdFile, id: view.state.passwd, old: view.passwd.text, text: view.passwd.text, mode: 0o644},
		group:       document{file: groupFile, id: view.state.group, old: view.group.text, text: view.group.text, mode: 0o644},
		shadow:      document{file: shadowFile, id: view.state.shadow, mode: 0o600},
		retiredText: document{file: retiredFile, id: retiredID, old: retired.text, text: retired.text, mode: 0o600},
		sudoers:     map[string]*string{},
	}, nil
}

// View is the state under the lock, before the edits.
func (t *Tx) View() *View { return t.view }

// Entries is the journal under the lock, oldest first, before the edits.
func (t *Tx) Entries() []Entry { return t.entries }

// AddAccount appends a passwd line.
func (t *Tx) AddAccount(account farm.Account) {
	t.passwd.text = appendLine(t.passwd.text, formatAccount(account))
}

// RemoveAccount takes out the account's passwd lines.
func (t *Tx) RemoveAccount(name farm.UserName) {
	t.removing = true
	t.passwd.text = rewrite(t.passwd.text, func(line string) (string, bool) {
		if !strings.HasPrefix(line, string(name)) {
			return line, true
		}
		account, ok := parseAccount(line)
		return line, !ok || account.Name != name
	})
}

// AddGroup appends a group line.
func (t *Tx) AddGroup(group farm.Group) {
	t.group.text = appendLine(t.group.text, formatGroup(group))
}

// RemoveGroup takes out the group's lines.
func (t *Tx) RemoveGroup(name farm.GroupName) {
	t.group.text = rewrite(t.group.text, func(line string) (string, bool) {
		if !strings.HasPrefix(line, string(name)) {
			return line, true
		}
		group, ok := parseGroup(line)
		return line, !ok || group.Name != name
	})
}

// AddMember adds a user to every group of the list that does not have it yet.
func (t *Tx) AddMember(user farm.UserName, groups ...farm.GroupName) {
	if len(groups) == 0 {
		return
	}
	t.group.text = rewrite(t.group.text, func(line string) (string, bool) {
		name, _, _ := strings.Cut(line, ":")
		if !slices.Contains(groups, farm.GroupName(name)) {
			return line, true
		}
		if _, ok := parseGroup(line); !ok {
			return line, true
		}
		return withMember(line, user), true
	})
}

// RemoveMember takes a user out of all groups but those in keep.
func (t *Tx) RemoveMember(user farm.UserName, keep ...farm.GroupName) {
	if !strings.Contains(t.group.text, string(user)) {
		return // the usual case of a new account, and far cheaper than a look at each line
	}
	t.group.text = rewrite(t.group.text, func(line string) (string, bool) {
		if !strings.Contains(line, string(user)) {
			return line, true
		}
		group, ok := parseGroup(line)
		if !ok || slices.Contains(keep, group.Name) || !slices.Contains(group.Members, user) {
			return line, true
		}
		return withoutMember(line, user), true
	})
}

// SetPassword replaces all shadow lines of the user by one with this hash, changed today. It
// returns a *WriteError if shadow cannot be read.
func (t *Tx) SetPassword(user farm.UserName, hash string) error {
	if err := t.RemovePassword(user); err != nil {
		return err
	}
	const daySeconds = 24 * 60 * 60
	day := t.ledger.opts.Now().Unix() / daySeconds
	t.shadow.text = appendLine(t.shadow.text, fmt.Sprintf("%s:%s:%d:0:99999:7:::", user, hash, day))
	return nil
}

// RemovePassword takes out all shadow lines of the user. It returns a *WriteError if shadow cannot
// be read.
func (t *Tx) RemovePassword(user farm.UserName) error {
	if err := t.loadShadow(); err != nil {
		return &WriteError{File: shadowFile, Err: err}
	}
	t.shadow.text = dropNamed(t.shadow.text, string(user))
	return nil
}

func (t *Tx) loadShadow() error {
	if t.shadow.old != "" {
		return nil
	}
	text, err := t.seedShadow(), error(nil)
	if !t.view.fresh {
		text, t.shadow.id, err = t.ledger.readFile(shadowFile)
	}
	if err != nil {
		return err
	}
	if text == "" {
		return fmt.Errorf("%w: %s", errChanged, shadowFile)
	}
	t.shadow.old, t.shadow.text = text, text
	return nil
}

func (t *Tx) seedShadow() string {
	const daySeconds = 24 * 60 * 60
	return seedShadow(t.ledger.opts.Now().Unix() / daySeconds)
}

// SetSudoers gives the user the policy of Options.SudoCommands and returns the path of its file. If
// there are no such commands an old policy is removed and the path is empty.
func (t *Tx) SetSudoers(user farm.UserName) string {
	policy := sudoPolicy(user, t.ledger.opts.SudoCommands)
	if policy == "" {
		t.RemoveSudoers(user)
		return ""
	}
	t.sudoers[string(user)] = &policy
	return filepath.Join(t.ledger.opts.Dir, sudoersDir, string(user))
}

// RemoveSudoers removes the user's policy file if there is one.
func (t *Tx) RemoveSudoers(user farm.UserName) { t.sudoers[string(user)] = nil }

func sudoPolicy(user farm.UserName, commands []string) string {
	var allowed []string
	for _, command := range commands {
		if command = strings.TrimSpace(command); command != "" {
			allowed = append(allowed, command)
		}
	}
	if len(allowed) == 0 {
		return ""
	}
	return string(user) + " ALL=(ALL) PASSWD: " + strings.Join(allowed, ", ") + "\n"
}

// Retire records that a number was given to name, so that nobody else ever gets it.
func (t *Tx) Retire(kind IDKind, id farm.ID, name string) {
	t.retiredText.text = t.retired.with(t.retiredText.text, Retirement{Kind: kind, ID: id, Name: name})
}

// PutEntry writes a journal entry with the commit.
func (t *Tx) PutEntry(entry Entry) { t.put = append(t.put, entry) }

// DropEntry removes a journal entry with the commit.
func (t *Tx) DropEntry(id string) { t.dropped = append(t.dropped, id) }

// changes lists what the commit has to put and to remove, in the order in which it becomes visible.
func (t *Tx) changes() (puts []put, removes []string) {
	for _, entry := range t.put {
		text, err := json.MarshalIndent(entry, "", "  ")
		if err != nil {
			panic(fmt.Sprintf("encode journal entry: %v", err)) // it has nothing that cannot be encoded
		}
		puts = append(puts, put{file: entryFile(entry.ID), text: string(text) + "\n", mode: 0o600})
	}
	if t.retiredText.changed() {
		puts = append(puts, t.retiredText.put())
	}
	puts = append(puts, t.accountFiles()...)
	for _, name := range sortedKeys(t.sudoers) {
		file := sudoersDir + "/" + name
		if policy := t.sudoers[name]; policy != nil {
			puts = slices.Insert(puts, t.beforePasswd(puts), put{file: file, text: *policy, mode: 0o440, fixedMode: true})
			continue
		}
		removes = append(removes, file)
	}
	for _, id := range t.dropped {
		removes = append(removes, entryFile(id))
	}
	return puts, removes
}

// accountFiles puts the changed ones of passwd, group and shadow: passwd first if an account goes,
// last if it comes. The first change to a fresh share puts all of them, and the seeds beside them.
func (t *Tx) accountFiles() []put {
	var puts []put
	documents := []*document{&t.group, &t.shadow, &t.passwd}
	if t.removing {
		documents = []*document{&t.passwd, &t.group, &t.shadow}
	}
	seeding := t.view.fresh && (t.passwd.changed() || t.group.changed() || t.shadow.changed())
	if seeding {
		if t.shadow.old == "" {
			t.shadow.text = t.seedShadow()
		}
		puts = append(puts,
			put{file: "bashrc", text: seedBashrc, mode: 0o644, onlyNew: true},
			put{file: "bash.bash_logout", text: seedLogout, mode: 0o644, onlyNew: true})
	}
	for _, d := range documents {
		if d.changed() || seeding {
			puts = append(puts, d.put())
		}
	}
	return puts
}

// beforePasswd is where a policy file goes: a new account's is there before the account shows.
func (t *Tx) beforePasswd(puts []put) int {
	at := slices.IndexFunc(puts, func(p put) bool { return p.file == passwdFile })
	if at < 0 || t.removing {
		return len(puts)
	}
	return at
}

func (d *document) put() put { return put{file: d.file, text: d.text, mode: d.mode} }

// guard tells whether the files still are what was read.
func (t *Tx) guard() error {
	now, err := t.ledger.stat()
	if err != nil {
		return err
	}
	retired, err := t.ledger.openedIdentity(retiredFile)
	if err != nil {
		return err
	}
	was := state{passwd: t.passwd.id, group: t.group.id, shadow: t.shadow.id}
	if now != was || retired != t.retiredText.id {
		return errChanged
	}
	return nil
}
