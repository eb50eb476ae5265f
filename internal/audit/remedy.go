package audit

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	"config-server/internal/farm"
)

// Places are the addresses that commands need.
type Places struct {
	URL       string // of this service
	Token     bool   // callers need API_TOKEN
	Namespace string
	Share     string // BASE_ETC_DIR
	NASHost   string
	NASPort   int
	NASUser   string
	NASShare  string // folder of the homes on the NAS
	// SQL is the command that reads one statement from its standard input.
	SQL string
}

const (
	remedyReconcile = "config-server reconcile"
	remedyCheck     = "config-server check"
)

// quote makes one word of a POSIX shell.
func quote(word string) string {
	plain := word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("@%+:,./_-", r)
	})
	if plain {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// pattern is text as an extended regular expression that also stands between slashes.
func pattern(text string) string { return strings.ReplaceAll(regexp.QuoteMeta(text), "/", `\/`) }

func (p Places) file(name string) string { return quote(path.Join(p.Share, name)) }

// call is a request to this service. The token stays out of the argument list.
func (p Places) call(method, route string, body any) string {
	text, err := json.Marshal(body)
	if err != nil {
		return "" // strings and numbers only
	}
	curl := "curl -sS -X " + method + " " + quote(p.URL+route) + " -d " + quote(string(text))
	if p.Token {
		return `printf 'X-Internal-Token: %s\n' "$API_TOKEN" | ` + strings.Replace(curl, "curl -sS", "curl -sS -H @-", 1)
	}
	return curl
}

// deletePod removes a workspace: its Services, its rows, and the pod as far as it is there.
func (p Places) deletePod(pod farm.PodName) string {
	if farm.CheckPodName(string(pod)) != nil {
		return p.kubectl("get pods,services --show-labels --selector " + quote("pod_name="+string(pod)))
	}
	return p.call("POST", "/delete-pod", map[string]string{"pod_name": string(pod)})
}

func (p Places) kubectl(arguments string) string {
	return "kubectl -n " + quote(p.Namespace) + " " + arguments
}

// linesOf shows the lines of the files that begin with a name; never those of shadow, which hold
// password hashes.
func (p Places) linesOf(name string, files ...string) string {
	words := "grep -nE " + quote("^"+pattern(name)+":")
	for _, file := range files {
		words += " " + p.file(file)
	}
	return words
}

// withNumber shows the accounts and groups that have a number.
func (p Places) withNumber(id farm.ID) string {
	return fmt.Sprintf(`awk -F: '$3 == %d {print FILENAME ":" FNR ":" $0}' %s %s`, id, p.file("passwd"), p.file("group"))
}

// appendMissing appends a line unless the file has one of that name. make is the shell text that
// prints the line.
func (p Places) appendMissing(file, name, make string) string {
	return fmt.Sprintf("grep -qE %s %s || %s >> %s", quote("^"+pattern(name)+":"), p.file(file), make, p.file(file))
}

// withoutMember takes a member out of a group's line.
func (p Places) withoutMember(group, member string) string {
	script := fmt.Sprintf(`/^%s:/{s/([:,])%s(,|$)/\1\2/;s/,,/,/;s/:,/:/;s/,$//}`, pattern(group), pattern(member))
	return "sed -i -E " + quote(script) + " " + p.file("group")
}

func (p Places) dropLine(file, name string) string {
	return "sed -i -E " + quote("/^"+pattern(name)+":/d") + " " + p.file(file)
}

// askToRemovePolicy has rm ask first; of a name that no terminal should see it only lists the folder.
func (p Places) askToRemovePolicy(name string) string {
	if farm.CheckPossible(name) != nil {
		return "ls -lb " + p.file("sudoers.d")
	}
	return "rm -i " + p.file("sudoers.d/"+name)
}

// showLine shows a damaged line; of shadow, without the field of the password.
func (p Places) showLine(d Damage) string {
	show := fmt.Sprintf("sed -n %dp %s", d.Line, p.file(d.File))
	if d.File == "shadow" {
		show += " | cut -d: -f1,3-"
	}
	return show
}

// newPassword asks for a password and makes the shadow line of an account; the password is in no
// argument list, because printf is the shell's own.
func (p Places) newPassword(name string) string {
	line := fmt.Sprintf(`printf '%%s:%%s:%%d:0:99999:7:::\n' %s "$(openssl passwd -6)" "$(($(date +%%s)/86400))"`, quote(name))
	return p.appendMissing("shadow", name, line)
}

func (p Places) homePath(name string) string { return path.Join(p.NASShare, name) }

// onNAS runs shell text on the NAS.
func (p Places) onNAS(terminal bool, text string) string {
	words := "ssh "
	if terminal {
		words += "-t "
	}
	if p.NASPort != 0 && p.NASPort != 22 {
		words += "-p " + strconv.Itoa(p.NASPort) + " "
	}
	return words + quote(p.NASUser+"@"+p.NASHost) + " " + quote(text)
}

func (p Places) makeHome(a farm.Account) string {
	home := quote(p.homePath(string(a.Name)))
	return p.onNAS(false, fmt.Sprintf("test -e %[1]s || { sudo mkdir -p %[1]s && sudo chown %[2]d:%[3]d %[1]s && sudo chmod 700 %[1]s; }", home, a.UID, a.GID))
}

func (p Places) showHome(name string) string {
	home := quote(p.homePath(name))
	return p.onNAS(false, fmt.Sprintf("ls -ldn %[1]s; ls -A %[1]s", home))
}

// giveHome gives a home to its account if it is empty and root's, as one that was cut off is.
func (p Places) giveHome(a farm.Account) string {
	home := quote(p.homePath(string(a.Name)))
	return p.onNAS(false, fmt.Sprintf(`test "$(stat -c %%u %[1]s)" = 0 && test -z "$(ls -A %[1]s)" && sudo chown %[2]d:%[3]d %[1]s && sudo chmod 700 %[1]s`, home, a.UID, a.GID))
}

// askToRemoveHome shows a home and removes it only if the person who reads that types its name.
func (p Places) askToRemoveHome(name string) string {
	home := quote(p.homePath(name))
	return p.onNAS(true, fmt.Sprintf(`ls -ldn %[1]s; ls -A %[1]s; printf "type %[2]s to remove it: "; read -r answer; test "$answer" = %[2]s && sudo rm -rf %[1]s`, home, name))
}

// openPort makes the Service that a row promises.
func (p Places) openPort(row farm.Row) string {
	purpose := farm.PurposeLabel(row.Port.Purpose)
	overrides := fmt.Sprintf(`{"apiVersion":"v1","spec":{"ports":[{"name":%q,"protocol":"TCP","port":%d,"targetPort":%d,"nodePort":%d}]}}`,
		purpose, row.Port.Internal, row.Port.Internal, row.Port.External)
	labels := fmt.Sprintf("%s=%s,%s=%s,%s=%s,%s=%s", farm.LabelApp, farm.AppNodePort, farm.LabelUser, row.User, farm.LabelPod, row.Pod, farm.LabelPurpose, purpose)
	return p.kubectl(fmt.Sprintf("expose pod %s --name=%s --type=NodePort --protocol=TCP --port=%d --target-port=%d --selector=%s --labels=%s --overrides=%s",
		quote(string(row.Pod)), quote(farm.ServiceName(row.User, row.Port.Purpose, row.Port.External)), row.Port.Internal, row.Port.Internal,
		quote(farm.LabelPod+"="+string(row.Pod)), quote(labels), quote(overrides)))
}

func (p Places) sql(statement string) string { return "echo " + quote(statement) + " | " + p.SQL }
