package httpapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// encodedList is a body in the forms in which it goes out.
type encodedList struct {
	plain, zipped []byte
	err           error
}

// listed is a list as one state of the share has it.
type listed struct {
	version string // of the state, for the ETag
	memo    func(key string, build func() any) any
}

// listUsers answers GET /accounts/users.
func (a *api) listUsers(w http.ResponseWriter, r *http.Request) error {
	list, err := a.Accounts.Users(r.Context())
	if err != nil {
		return err
	}
	return listed{list.Version, list.Memo}.answer(w, r, "users", func() any {
		told := make([]account, len(list.Accounts))
		for i, user := range list.Accounts {
			told[i] = accountJSON(user)
		}
		return told
	})
}

// listGroups answers GET /accounts/groups.
func (a *api) listGroups(w http.ResponseWriter, r *http.Request) error {
	groups, err := a.Accounts.Groups(r.Context())
	if err != nil {
		return err
	}
	return listed{groups.Version, groups.Memo}.answer(w, r, "groups", func() any {
		told := make([]groupWithMembers, len(groups.Groups))
		for i, g := range groups.Groups {
			told[i] = groupWithMembers{group{g.Name, g.GID}, list(g.Members)}
		}
		return told
	})
}

// answer tells a list under its name. The list of a big farm is megabytes: it is encoded once for
// each state of the share, told by an ETag to who has it already, and zipped for who asks for that.
func (l listed) answer(w http.ResponseWriter, r *http.Request, name string, items func() any) error {
	return answerTagged(w, r, contentJSON, l.version, func() *encodedList {
		return l.memo(name, func() any { return encodeList(name, object{name: items()}) }).(*encodedList)
	})
}

// answerTagged answers with the version that encode makes, or with 304 to who has it already.
func answerTagged(w http.ResponseWriter, r *http.Request, contentType, version string, encode func() *encodedList) error {
	// Weak, because the plain and the zipped form are the same list and not the same bytes.
	etag := `W/"` + version + `"`
	header := w.Header()
	header.Set("ETag", etag)
	header.Set("Cache-Control", "no-cache") // it may be kept, and has to be asked for again
	header.Set("Vary", "Accept-Encoding")
	if matches(r.Header.Values("If-None-Match"), etag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	encoded := encode()
	if encoded.err != nil {
		return encoded.err
	}
	body := encoded.plain
	if acceptsGzip(r.Header.Values("Accept-Encoding")) {
		header.Set("Content-Encoding", "gzip")
		body = encoded.zipped
	}
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // a caller that is gone cannot be told so
	return nil
}

func encodeList(name string, list any) *encodedList {
	plain, err := encode(list)
	if err != nil {
		return &encodedList{err: fmt.Errorf("encode the list of %s: %w", name, err)}
	}
	return zipped(plain)
}

func encode(body any) ([]byte, error) {
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(body)
	return plain.Bytes(), err
}

func zipped(plain []byte) *encodedList {
	var zipped bytes.Buffer
	zip := gzip.NewWriter(&zipped)
	_, err := zip.Write(plain)
	if err == nil {
		err = zip.Close()
	}
	if err != nil {
		return &encodedList{err: fmt.Errorf("zip an answer: %w", err)}
	}
	return &encodedList{plain: plain, zipped: zipped.Bytes()}
}

// matches reports whether If-None-Match names this ETag; weak comparison, as RFC 9110 has it.
func matches(values []string, etag string) bool {
	for _, value := range values {
		for candidate := range strings.SplitSeq(value, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == "*" || strings.TrimPrefix(candidate, "W/") == strings.TrimPrefix(etag, "W/") {
				return true
			}
		}
	}
	return false
}

// acceptsGzip reports whether an answer shall be zipped, as RFC 9110 (12.5.3) weighs it: gzip is accepted, by
// name or by a star, and the plain form is not named as the better one.
func acceptsGzip(values []string) bool {
	weights := acceptedWeights(values)
	gzip, named := weights["gzip"]
	if !named {
		gzip = weights["*"]
	}
	return gzip > 0 && gzip >= weights["identity"]
}

// acceptedWeights are what a header such as Accept or Accept-Encoding names, in lower case, with its weights. A
// weight that is left out, or is no number, is 1; of a name that stands there twice the first counts.
func acceptedWeights(values []string) map[string]float64 {
	weights := map[string]float64{}
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			name, parameters, err := mime.ParseMediaType(part)
			if _, known := weights[name]; err != nil || known {
				continue
			}
			weight, err := strconv.ParseFloat(parameters["q"], 64)
			if err != nil {
				weight = 1
			}
			weights[name] = weight
		}
	}
	return weights
}
