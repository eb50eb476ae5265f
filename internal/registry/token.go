package registry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// maxToken bounds the answer of a token service, in bytes.
const maxToken = 1 << 20

// authorize gives the Authorization header that the registry wants. The error wraps farm.ErrDenied if
// the login is not good for it.
func (v *visit) authorize(ctx context.Context, wanted challenge, login Login) (string, error) {
	if wanted.scheme == schemeBasic {
		if login.isNone() {
			return "", errDenied
		}
		return login.basic(), nil
	}
	realm, err := url.Parse(wanted.parameters["realm"])
	switch {
	case err != nil || realm.Host == "" || realm.User != nil:
		return "", errors.New("it names no address of a token service")
	case realm.Scheme == "https":
	case realm.Scheme != "http" || v.address.Scheme != "http" || !v.client.mayBePlain(realm.Host):
		return "", errors.New("its token service is not to be asked over a connection without TLS")
	}
	query := realm.Query()
	if service := wanted.parameters["service"]; service != "" {
		query.Set("service", service)
	}
	scope := wanted.parameters["scope"]
	if scope == "" {
		scope = "repository:" + v.repository + ":pull"
	}
	query["scope"] = strings.Fields(scope)
	realm.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, realm.String(), nil)
	if err != nil {
		return "", errors.New("it names no address of a token service")
	}
	if !login.isNone() {
		request.Header.Set("Authorization", login.basic())
	}
	answer, err := v.client.do(request)
	if err != nil {
		return "", fmt.Errorf("ask token service %s: %w", realm.Host, err)
	}
	defer discard(answer)
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return "", errDenied
	default:
		return "", fmt.Errorf("token service %s answers %d", realm.Host, answer.StatusCode)
	}
	token, err := readToken(answer.Body)
	if err != nil {
		return "", fmt.Errorf("read the answer of token service %s: %w", realm.Host, err)
	}
	return "Bearer " + token, nil
}

func readToken(body io.Reader) (string, error) {
	var said struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if json.NewDecoder(io.LimitReader(body, maxToken)).Decode(&said) != nil {
		return "", errors.New("it is no JSON object") // the decoder's own words may have some of the token
	}
	token := said.Token
	if token == "" {
		token = said.AccessToken
	}
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("there is no token in it")
	}
	return token, nil
}

func (l Login) isNone() bool { return l.user == "" && l.password == "" }

func (l Login) basic() string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(l.user+":"+l.password))
}

// The schemes that registries ask for.
const (
	schemeBearer = "bearer"
	schemeBasic  = "basic"
)

// challenge is one way in which a server wants to be asked.
type challenge struct {
	scheme     string // in lower case
	parameters map[string]string
}

// choose takes a token where one is offered, because a password then goes to one place only.
func choose(offered []challenge) (challenge, bool) {
	for _, scheme := range []string{schemeBearer, schemeBasic} {
		for _, one := range offered {
			if one.scheme == scheme {
				return one, true
			}
		}
	}
	return challenge{}, false
}

// parseChallenges reads WWW-Authenticate (RFC 9110, 11.6.1): a header may have several challenges, and
// a quoted value may have commas. What cannot be read ends the reading.
func parseChallenges(headers []string) []challenge {
	var found []challenge
	for _, text := range headers {
		for {
			text = strings.TrimLeft(text, " \t,")
			name, rest := token(text)
			if name == "" {
				break
			}
			value, after, isParameter := parameter(rest)
			switch {
			case !isParameter:
				found = append(found, challenge{scheme: strings.ToLower(name), parameters: map[string]string{}})
				text = rest
			case len(found) == 0:
				text = ""
			default:
				found[len(found)-1].parameters[strings.ToLower(name)] = value
				text = after
			}
		}
	}
	return found
}

// parameter reads what follows the name of a parameter: = and a word or a quoted text.
func parameter(text string) (value, rest string, ok bool) {
	text, ok = strings.CutPrefix(strings.TrimLeft(text, " \t"), "=")
	if !ok {
		return "", "", false
	}
	text = strings.TrimLeft(text, " \t")
	if !strings.HasPrefix(text, `"`) {
		value, rest = token(text)
		return value, rest, true
	}
	var plain strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return plain.String(), text[i+1:], true
		case '\\':
			i++
		}
		if i < len(text) {
			plain.WriteByte(text[i])
		}
	}
	return plain.String(), "", true
}

// token reads one word.
func token(text string) (word, rest string) {
	end := strings.IndexAny(text, " \t,=\"")
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[end:]
}
