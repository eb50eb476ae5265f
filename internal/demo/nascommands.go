package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"config-server/internal/farm"
)

// homes is the folder of home directories behind the NAS's commands. The owners are kept beside it,
// because nobody but root can give a file away.
type homes struct {
	mu     sync.Mutex
	root   *os.Root
	owners map[string]owner
}

type owner struct{ uid, gid int }

// outcome is what a command wrote and how it ended.
type outcome struct {
	stdout, stderr string
	status         uint32
}

func openHomes(dir string) (*homes, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &homes{root: root, owners: map[string]owner{}}, nil
}

func (h *homes) close() error { return h.root.Close() }

// run reads a command line as a shell would and does it, if it is exactly one that the NAS allows.
func (h *homes) run(line string) outcome {
	argv, err := splitWords(line)
	if err != nil {
		return outcome{stderr: "sh: " + err.Error() + "\n", status: 2}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case beginsWith(argv, "stat", "-c", "%u"):
		return h.onHome(argv[3:], h.stat)
	case beginsWith(argv, "ls", "-A"):
		return h.onHome(argv[2:], h.listHome)
	case slices.Equal(argv, []string{"ls", "-n", sharePath}):
		return h.listShare()
	case beginsWith(argv, "sudo", "mkdir", "-p"):
		return h.onHome(argv[3:], h.mkdir)
	case beginsWith(argv, "sudo", "chown") && len(argv) == 4:
		return h.onHome(argv[3:], func(name string) outcome { return h.chown(name, argv[2]) })
	case beginsWith(argv, "sudo", "chmod", "700"):
		return h.onHome(argv[3:], h.chmod)
	case beginsWith(argv, "sudo", "rm", "-rf"):
		return h.onHome(argv[3:], h.remove)
	}
	return refused()
}

func refused() outcome { return outcome{stderr: "this NAS does not allow that command\n", status: 126} }

func beginsWith(argv []string, head ...string) bool {
	return len(argv) >= len(head) && slices.Equal(argv[:len(head)], head)
}

// onHome calls f with the name of the home if the arguments are the path of one home and no more.
func (h *homes) onHome(arguments []string, f func(name string) outcome) outcome {
	if len(arguments) != 1 {
		return refused()
	}
	name, below := strings.CutPrefix(arguments[0], sharePath+"/")
	if !below || !farm.UserName(name).Commandable() {
		return refused()
	}
	return f(name)
}

func (h *homes) stat(name string) outcome {
	info, err := h.root.Lstat(name)
	if err != nil {
		return said("stat: cannot statx", name, err)
	}
	return outcome{stdout: strconv.Itoa(h.owners[info.Name()].uid) + "\n"}
}

func (h *homes) listHome(name string) outcome {
	entries, err := fs.ReadDir(h.root.FS(), name)
	if err != nil {
		return said("ls: cannot open directory", name, err)
	}
	var b strings.Builder
	for _, entry := range entries {
		fmt.Fprintln(&b, entry.Name())
	}
	return outcome{stdout: b.String()}
}

func (h *homes) listShare() outcome {
	entries, err := fs.ReadDir(h.root.FS(), ".")
	if err != nil {
		return said("ls: cannot open directory", "", err)
	}
	var b strings.Builder
	fmt.Fprintln(&b, "total 0")
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			continue
		}
		of := h.owners[entry.Name()]
		fmt.Fprintf(&b, "%s 2 %d %d 4096 %s %s\n", modeOf(info), of.uid, of.gid, info.ModTime().Format("Jan _2 15:04"), entry.Name())
	}
	return outcome{stdout: b.String()}
}

func modeOf(info fs.FileInfo) string {
	kind := "-"
	if info.IsDir() {
		kind = "d"
	}
	return kind + info.Mode().Perm().String()[1:]
}

// mkdir leaves a home that is there as it is; a new one is root's.
func (h *homes) mkdir(name string) outcome {
	err := h.root.Mkdir(name, 0o755)
	switch {
	case err == nil:
		h.owners[name] = owner{}
	case !errors.Is(err, fs.ErrExist):
		return said("mkdir: cannot create directory", name, err)
	}
	return outcome{}
}

func (h *homes) chown(name, who string) outcome {
	uid, gid, both := strings.Cut(who, ":")
	u, uidErr := strconv.ParseUint(uid, 10, 31)
	g, gidErr := strconv.ParseUint(gid, 10, 31)
	if !both || uidErr != nil || gidErr != nil {
		return refused()
	}
	if _, err := h.root.Lstat(name); err != nil {
		return said("chown: cannot access", name, err)
	}
	h.owners[name] = owner{int(u), int(g)}
	return outcome{}
}

func (h *homes) chmod(name string) outcome {
	if err := h.root.Chmod(name, 0o700); err != nil {
		return said("chmod: cannot access", name, err)
	}
	return outcome{}
}

func (h *homes) remove(name string) outcome {
	if err := h.root.RemoveAll(name); err != nil {
		return said("rm: cannot remove", name, err)
	}
	delete(h.owners, name)
	return outcome{}
}

// said is a failure in the words of the commands.
func said(words, name string, err error) outcome {
	reason := "Input/output error"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		reason = "No such file or directory"
	case errors.Is(err, fs.ErrPermission):
		reason = "Permission denied"
	}
	return outcome{stderr: fmt.Sprintf("%s '%s/%s': %s\n", words, sharePath, name, reason), status: 1}
}

// splitWords splits a line into words. It knows blanks, single quotes and a backslash before one
// character, which is what a quoted command is made of; whatever would make a shell do more is an
// error.
func splitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord, inQuotes, escaped := false, false, false
	for i := range len(line) { // bytes, because a name need not be UTF-8
		c := line[i]
		switch {
		case escaped:
			word.WriteByte(c)
			escaped = false
		case inQuotes && c == '\'':
			inQuotes = false
		case inQuotes:
			word.WriteByte(c)
		case c == '\'':
			inQuotes, inWord = true, true
		case c == '\\':
			escaped, inWord = true, true
		case c == ' ':
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		case strings.IndexByte("\"$`;&|<>(){}[]*?~#!\n\r\t\x00", c) >= 0:
			return nil, fmt.Errorf("syntax error near %q", c)
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if inQuotes || escaped {
		return nil, errors.New("syntax error: unterminated quoted string")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// describe is one line about a home, for people.
func (h *homes) describe(name string) (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	info, err := h.root.Lstat(name)
	if err != nil {
		return "", false
	}
	of := h.owners[name]
	return fmt.Sprintf("%s %d:%d %s/%s", modeOf(info), of.uid, of.gid, sharePath, name), true
}
