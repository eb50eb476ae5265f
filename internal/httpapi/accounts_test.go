package httpapi_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/accounts"
	"config-server/internal/farm"
	"config-server/internal/httpapi"
)

func TestUsers(t *testing.T) {
	t.Parallel()
	runExchanges(t, []exchange{
		{"list", "GET", "/accounts/users", "", 200,
			`{"users":[{"name":"user2100","uid":20000,"gid":20000,"gecos":"GPU User","home":"/home/user2100","shell":"/bin/bash"}]}`},
		{"one", "GET", "/accounts/users/user2100", "", 200,
			`{"user":{"name":"user2100","uid":20000,"gid":20000,"gecos":"GPU User","home":"/home/user2100","shell":"/bin/bash"},
			"groups":[{"name":"user2100","gid":20000,"type":"primary"}]}`},
		{"gone", "DELETE", "/accounts/users/user2100", "", 200, `{"status":"deleted","user":"user2100"}`},
		{"made", "PUT", "/accounts/users",
			`{"name":"user2100","passwd_base64":"cGFzc3dvcmQ=","supplementary_groups":[{"name":"ailab","gid":"20005"}]}`, 201,
			`{"status":"created","user":{"name":"user2100","passwd":"x","uid":20000,"gid":20000,"gecos":"GPU User","home":"/home/user2100","shell":"/bin/bash"},
			"group":{"name":"user2100","gid":20000},"supplementary_groups":[{"name":"ailab","gid":20005}],"sudoers":null}`},
		{"made without groups", "PUT", "/accounts/users", `{"name":"user2100","passwd_base64":"cGFzc3dvcmQ="}`, 201,
			`{"status":"created","user":{"name":"user2100","passwd":"x","uid":20000,"gid":20000,"gecos":"GPU User","home":"/home/user2100","shell":"/bin/bash"},
			"group":{"name":"user2100","gid":20000},"supplementary_groups":[],"sudoers":null}`},
	})
}

func TestUsersEmptyListIsAList(t *testing.T) {
	t.Parallel()
	s := newService(func(_ *httpapi.Options, s *service) {
		s.users.users = func(context.Context) ([]farm.Account, error) { return nil, nil }
	})
	exchange{"", "GET", "/accounts/users", "", 200, `{"users":[]}`}.run(t, s)
}

func TestGroupList(t *testing.T) {
	t.Parallel()
	runExchanges(t, []exchange{
		{"list", "GET", "/accounts/groups", "", 200,
			`{"groups":[{"name":"sudo","gid":27,"members":[]},{"name":"ailab","gid":20005,"members":["kim","user2100"]}]}`},
	})
	s := newService(func(_ *httpapi.Options, s *service) {
		s.users.groups = func(context.Context) ([]farm.Group, error) { return nil, nil }
	})
	exchange{"", "GET", "/accounts/groups", "", 200, `{"groups":[]}`}.run(t, s)
	broken := newService(func(_ *httpapi.Options, s *service) {
		s.users.groups = func(context.Context) ([]farm.Group, error) {
			return nil, farm.Errorf(farm.Internal, "the share is away")
		}
	})
	exchange{"", "GET", "/accounts/groups", "", 500, `{"error":"the share is away"}`}.run(t, broken)
}

func TestCreateUserRefusals(t *testing.T) {
	t.Parallel()
	const groups = `{"error":"supplementary_groups must be list of {name, gid}"}`
	const password = `{"error":"invalid passwd_base64"}`
	put := func(name, body, want string) exchange {
		return exchange{name, "PUT", "/accounts/users", body, 400, want}
	}
	withGroups := func(value string) string {
		return `{"name":"x","passwd_base64":"YQ==","supplementary_groups":` + value + `}`
	}
	withPassword := func(value string) string { return `{"name":"x","passwd_base64":` + value + `}` }
	runExchanges(t, []exchange{
		put("both missing", `{}`, `{"error":"missing fields: name, passwd_base64"}`),
		put("both null", `{"name":null,"passwd_base64":null}`, `{"error":"missing fields: name, passwd_base64"}`),
		put("password missing", `{"name":"x"}`, `{"error":"missing fields: passwd_base64"}`),
		put("name missing", `{"passwd_base64":"YQ=="}`, `{"error":"missing fields: name"}`),
		put("name empty", `{"name":"","passwd_base64":"YQ=="}`, `{"error":"missing fields: name"}`),
		put("missing fields come before groups", `{"supplementary_groups":5}`, `{"error":"missing fields: name, passwd_base64"}`),
		put("groups come before the password", `{"name":"x","passwd_base64":"@","supplementary_groups":5}`, groups),
		put("the password comes before other types", `{"name":1,"passwd_base64":"@"}`, password),

		put("groups a text", withGroups(`"a"`), groups),
		put("groups an object", withGroups(`{}`), groups),
		put("group a text", withGroups(`["a"]`), groups),
		put("group null", withGroups(`[null]`), groups),
		put("group a list", withGroups(`[[]]`), groups),
		put("group without gid", withGroups(`[{"name":"a"}]`), groups),
		put("group without name", withGroups(`[{"gid":20005}]`), groups),
		put("group with empty name", withGroups(`[{"name":"","gid":20005}]`), groups),
		put("group name a number", withGroups(`[{"name":1,"gid":20005}]`), groups),
		put("group gid null", withGroups(`[{"name":"a","gid":null}]`), groups),
		put("group gid empty", withGroups(`[{"name":"a","gid":""}]`), groups),
		put("group gid a bool", withGroups(`[{"name":"a","gid":true}]`), groups),
		put("group gid a fraction", withGroups(`[{"name":"a","gid":1.5}]`), groups),
		put("group gid a text", withGroups(`[{"name":"a","gid":"abc"}]`), groups),
		put("group keys in another case", withGroups(`[{"Name":"a","GID":20005}]`), groups),
		put("second group malformed", withGroups(`[{"name":"a","gid":20005},{}]`), groups),

		put("password no base64", withPassword(`"@@@"`), password),
		put("password without padding", withPassword(`"YQ"`), password),
		put("password with too much padding", withPassword(`"YQ==="`), password),
		put("password with a blank", withPassword(`"YQ== "`), password),
		put("password with a line break", withPassword(`"YQ==\n"`), password),
		put("password with a line break inside", withPassword(`"Y\nQ=="`), password),
		put("password with stray bits", withPassword(`"YR=="`), password),
		put("password in the URL alphabet", withPassword(`"_-8="`), password),
		put("password no UTF-8", withPassword(`"/////w=="`), password),
		put("password empty", withPassword(`""`), password),
		put("password with NUL", withPassword(`"YQBi"`), password),
		put("password with a newline in it", withPassword(`"YQpi"`), password),
		put("password a number", withPassword(`5`), password),
		put("password a list", withPassword(`["YQ=="]`), password),

		put("name a number", `{"name":5,"passwd_base64":"YQ=="}`, `{"error":"name must be a string"}`),
		put("name half a surrogate pair", `{"name":"a\ud800","passwd_base64":"YQ=="}`, `{"error":"name must be a string"}`),
		put("gecos a list", `{"name":"x","passwd_base64":"YQ==","gecos":[]}`, `{"error":"gecos must be a string"}`),
		put("primary group an object", `{"name":"x","passwd_base64":"YQ==","primary_group_name":{}}`, `{"error":"primary_group_name must be a string"}`),
	})
}

func TestCreateUserReachesTheUseCase(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, body string
		want       accounts.NewUser
	}{
		{"everything", `{"name":"a","passwd_base64":"7JWU7Zi4MTIz","gecos":"홍길동","primary_group_name":"g","supplementary_groups":[{"name":"x","gid":20005},{"name":"y","gid":"20006"}]}`,
			accounts.NewUser{Name: "a", Password: []byte("암호123"), Gecos: "홍길동", PrimaryGroup: "g", Supplementary: []farm.GroupRef{{Name: "x", GID: 20005}, {Name: "y", GID: 20006}}}},
		{"least", `{"name":"a","passwd_base64":"YQ=="}`, accounts.NewUser{Name: "a", Password: []byte("a")}},
		{"null is left out", `{"name":"a","passwd_base64":"YQ==","gecos":null,"primary_group_name":null,"supplementary_groups":null}`,
			accounts.NewUser{Name: "a", Password: []byte("a")}},
		{"a whole surrogate pair is a character", `{"name":"a","passwd_base64":"YQ==","gecos":"\ud83d\ude00 \\ud800"}`,
			accounts.NewUser{Name: "a", Password: []byte("a"), Gecos: `😀 \ud800`}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got accounts.NewUser
			s := newService(func(_ *httpapi.Options, s *service) {
				s.users.createUser = func(_ context.Context, user accounts.NewUser) (accounts.Created, error) {
					got = user
					return accounts.Created{Account: oneAccount("a"), Group: farm.GroupRef{Name: "a", GID: 20000}, Sudoers: "/etc/sudoers.d/a"}, nil
				}
			})
			answer := s.described(t, "PUT", "/accounts/users", c.body)
			if answer.object(t)["sudoers"] != "/etc/sudoers.d/a" {
				t.Errorf("answer: %s", answer.Text)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	const gid = `{"error":"gid must be an integer"}`
	put := func(name, body, want string) exchange {
		return exchange{name, "PUT", "/accounts/groups", body, 400, want}
	}
	withGID := func(value string) string { return `{"name":"other","gid":` + value + `}` }
	runExchanges(t, []exchange{
		{"made", "PUT", "/accounts/groups", `{"name":"developers"}`, 201, `{"group":{"name":"developers","gid":20006}}`},
		{"gone", "DELETE", "/accounts/groups/team7", "", 200, `{"status":"deleted","group":"team7","gid":20300}`},
		put("name missing", `{}`, `{"error":"missing fields: name"}`),
		put("name null", `{"name":null}`, `{"error":"missing fields: name"}`),
		put("name empty", `{"name":""}`, `{"error":"missing fields: name"}`),
		put("name a list", `{"name":["a"]}`, `{"error":"name must be a string"}`),
		put("gid comes before members", `{"name":"x","gid":true,"members":5}`, gid),
		put("gid a bool", withGID(`true`), gid),
		put("gid a text", withGID(`"abc"`), gid),
		put("gid a fraction", withGID(`1.5`), gid),
		put("gid a whole float", withGID(`20300.0`), gid),
		put("gid with an exponent", withGID(`1e3`), gid),
		put("gid a fraction as text", withGID(`"1.5"`), gid),
		put("gid with a sign", withGID(`"+20300"`), gid),
		put("gid with blanks", withGID(`" 20300 "`), gid),
		put("gid with leading zeros", withGID(`"020300"`), gid),
		put("gid hexadecimal", withGID(`"0x4f4c"`), gid),
		put("gid with other digits", withGID(`"２０３００"`), gid),
		put("gid beyond 64 bits", withGID(`99999999999999999999`), gid),
		put("gid a list", withGID(`[20300]`), gid),
		put("gid an object", withGID(`{}`), gid),
		put("members a text", `{"name":"x","members":"user2100"}`, `{"error":"members must be a list"}`),
		put("members an object", `{"name":"x","members":{}}`, `{"error":"members must be a list"}`),
		put("members that are no names", `{"name":"x","members":["user2100",null,20230001,{"a" : 1}]}`,
			`{"error":"invalid members (users not found): null, 20230001, {\"a\":1}"}`),
	})
}

func TestCreateGroupReachesTheUseCase(t *testing.T) {
	t.Parallel()
	id := func(n farm.ID) *farm.ID { return &n }
	cases := []struct {
		name, body string
		want       accounts.NewGroup
	}{
		{"number given", `{"name":"g","gid":20300,"members":["b","a"]}`, accounts.NewGroup{Name: "g", GID: id(20300), Members: []string{"b", "a"}}},
		{"number as text", `{"name":"g","gid":"20300"}`, accounts.NewGroup{Name: "g", GID: id(20300)}},
		{"negative number is the use case's matter", `{"name":"g","gid":-5}`, accounts.NewGroup{Name: "g", GID: id(-5)}},
		{"number empty", `{"name":"g","gid":""}`, accounts.NewGroup{Name: "g"}},
		{"number null", `{"name":"g","gid":null,"members":null}`, accounts.NewGroup{Name: "g"}},
		{"no members", `{"name":"g","members":[]}`, accounts.NewGroup{Name: "g", Members: []string{}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got accounts.NewGroup
			s := newService(func(_ *httpapi.Options, s *service) {
				s.users.createGroup = func(_ context.Context, group accounts.NewGroup) (farm.GroupRef, error) {
					got = group
					return farm.GroupRef{Name: "g", GID: 20300}, nil
				}
			})
			s.described(t, "PUT", "/accounts/groups", c.body)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJoinGroups(t *testing.T) {
	t.Parallel()
	const required = `{"error":"'groups' list is required"}`
	put := func(name, body string) exchange {
		return exchange{name, "PUT", "/accounts/users/user2101/groups", body, 400, required}
	}
	runExchanges(t, []exchange{
		{"joined", "PUT", "/accounts/users/user2101/groups", `{"groups":["ai-lab","developers"]}`, 200,
			`{"status":"updated","user":"user2101","groups":["ai-lab","developers"]}`},
		put("none", `{}`),
		put("empty", `{"groups":[]}`),
		put("null", `{"groups":null}`),
		put("a text", `{"groups":"developers"}`),
		put("with null", `{"groups":["developers",null]}`),
		put("with a number", `{"groups":[20005]}`),
	})
}

// Errors of the use cases reach callers of the accounts as text, except those that have a code.
func TestAccountsFailures(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		err    error
		status int
		want   string
	}{
		{"exists", farm.Errorf(farm.Conflict, "user already exists"), 409, `{"error":"user already exists"}`},
		{"refused", farm.Errorf(farm.Invalid, "bad name"), 400, `{"error":"bad name"}`},
		{"share failed", farm.Errorf(farm.Internal, "failed to write group"), 500, `{"error":"failed to write group"}`},
		{"NAS failed", farm.Failf(farm.Internal, farm.StepCreateHomeDirectory, farm.NASSSHFailed, nil, "no answer"), 500,
			`{"step":"CREATE_HOME_DIRECTORY","error":"NAS_SSH_FAILED","detail":"no answer","progress":{}}`},
		{"KDC failed", farm.Failf(farm.Internal, farm.StepCreateKrb5Principal, farm.KDCFailed, nil, "no answer"), 500,
			`{"step":"CREATE_KRB5_PRINCIPAL","error":"KDC_FAILED","detail":"no answer","progress":{}}`},
		{"unforeseen", errors.New("internals"), 500, `{"error":"internal error (request id r-1)"}`},
		{"deadline", context.DeadlineExceeded, 500, `{"error":"internal error (request id r-1)"}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newService(func(_ *httpapi.Options, s *service) {
				s.users.createUser = func(context.Context, accounts.NewUser) (accounts.Created, error) { return accounts.Created{}, c.err }
			})
			req := newRequest("PUT", "/accounts/users", `{"name":"a","passwd_base64":"YQ=="}`)
			req.Header.Set("X-Request-Id", "r-1")
			got := s.send(req)
			got.fits(t, "PUT", "/accounts/users")
			if got.Status != c.status {
				t.Errorf("status is %d, want %d", got.Status, c.status)
			}
			if diff := cmp.Diff(object(t, c.want), got.object(t)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeleteUserTellsWarnings(t *testing.T) {
	t.Parallel()
	s := newService(func(_ *httpapi.Options, s *service) {
		s.users.deleteUser = func(context.Context, string) (accounts.Deleted, error) {
			return accounts.Deleted{Warnings: []string{"home stays"}}, nil
		}
	})
	exchange{"", "DELETE", "/accounts/users/user2100", "", 200, `{"status":"deleted","user":"user2100","warnings":["home stays"]}`}.run(t, s)
}
