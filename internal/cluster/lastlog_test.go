package cluster

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLastLines(t *testing.T) {
	t.Parallel()
	numbered := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "line %d\n", i)
		}
		return b.String()
	}
	cases := map[string]struct{ raw, want string }{
		"nothing":                   {"", ""},
		"empty lines":               {"\n\n  \n", ""},
		"one line":                  {"no user of this uid\n", "no user of this uid"},
		"lines, the last unended":   {"a\nb", "a\nb"},
		"the last twenty":           {numbered(25), strings.TrimPrefix(strings.TrimSpace(numbered(25)), numbered(5))},
		"carriage returns and tabs": {"10%\r20%\tdone\r\n", "10% 20% done"},
		"colours":                   {"\x1b[1;31merror\x1b[0m: \x1b]0;title\x07bad\x1bM\n", "error: bad"},
		"control characters":        {"a\x00b\x07c\x7fd\u0085e\n", "abcde"},
		"no UTF-8":                  {"caf\xe9\n", "caf?"},
		"Korean":                    {"사용자가 없습니다\n", "사용자가 없습니다"},
		"a SHA-512 hash":            {"kim:$6$abcdefgh$Zk3.x/yQ:20000:0:99999:7:::\n", "kim:***:20000:0:99999:7:::"},
		"a hash with rounds":        {"$6$rounds=5000$salt$hash end\n", "*** end"},
		"yescrypt":                  {"pw=$y$j9T$F5Jx5fExrKuPp53xLKQ..1$X3DX6M94c7o.9agCG9G317fhZg9SqC.5i5rd.RhAtQ7\n", "pw=***"},
		"bcrypt":                    {`"$2b$12$EixZaYVK1fsbw1ZfbX3OXePaWxn96p36WQoeG6Lruj3vjPGga31lW"`, `"***"`},
		"argon2":                    {"$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$hash\n", "***"},
		"a password in JSON":        {`{"name":"kim","passwd_base64": "cGFzc3dvcmQ=","uid":1}`, `{"name":"kim","passwd_base64": "***","uid":1}`},
		"a password, quoted twice":  {`"{\"passwd_base64\":\"cGFzc3dvcmQ=\"}"`, `"{\"passwd_base64\":\"***\"}"`},
		"a password in a variable":  {"PASSWD_BASE64=cGFzc3dvcmQ=\n", "PASSWD_BASE64=***"},
		"dollars that are no hash":  {"cost $5 and $6 of $HOME\n", "cost $5 and $6 of $HOME"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := lastLines(c.raw); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// The end counts, whole characters stay whole, and a hash that the cut falls into is out before.
func TestLastLinesAreBounded(t *testing.T) {
	t.Parallel()
	for shift := range 4 {
		raw := strings.Repeat("줄", 5000) + strings.Repeat("x", shift) + " $6$salt$" + strings.Repeat("S", 1000) + " end"
		got := lastLines(raw)
		if len(got) > logBytes || !utf8.ValidString(got) || !strings.HasSuffix(got, "*** end") {
			t.Errorf("%d bytes, ends %q", len(got), got[max(0, len(got)-20):])
		}
	}
}
