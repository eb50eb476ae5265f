package httpapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// encodedList is a list in the forms in which it goes out.
type encodedList struct {
	plain, zipped []byte
	err           error
}

// listUsers answers GET /accounts/users. The list of a big farm is megabytes: it is encoded once for
// each state of the share, told by an ETag to who has it already, and zipped for who asks for that.
func (a *api) listUsers(w http.ResponseWriter, r *http.Request) error {
	list, err := a.Accounts.Users(r.Context())
	if err != nil {
		return err
	}
	// Weak, because the plain and the zipped form are the same list and not the same bytes.
	etag := `W/"` + list.Version + `"`
	header := w.Header()
	header.Set("ETag", etag)
	header.Set("Cache-Control", "no-cache") // it may be kept, and has to be asked for again
	header.Set("Vary", "Accept-Encoding")
	if matches(r.Header.Values("If-None-Match"), etag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	encoded := list.Memo("users", func() any {
		told := make([]account, len(list.Accounts))
		for i, user := range list.Accounts {
			told[i] = accountJSON(user)
		}
		return encodeList(object{"users": told})
	}).(*encodedList)
	if encoded.err != nil {
		return encoded.err
	}
	body := encoded.plain
	if acceptsGzip(r.Header.Values("Accept-Encoding")) {
		header.Set("Content-Encoding", "gzip")
		body = encoded.zipped
	}
	header.Set("Content-Type", contentJSON)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // a caller that is gone cannot be told so
	return nil
}

func encodeList(list any) *encodedList {
	var plain, zipped bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(list); err != nil {
		return &encodedList{err: fmt.Errorf("encode the list of users: %w", err)}
	}
	zip := gzip.NewWriter(&zipped)
	_, err := zip.Write(plain.Bytes())
	if err == nil {
		err = zip.Close()
	}
	if err != nil {
		return &encodedList{err: fmt.Errorf("zip the list of users: %w", err)}
	}
	return &encodedList{plain: plain.Bytes(), zipped: zipped.Bytes()}
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

// acceptsGzip reports whether Accept-Encoding names gzip without refusing it by q=0.
func acceptsGzip(values []string) bool {
	for _, value := range values {
		for coding := range strings.SplitSeq(value, ",") {
			name, parameters, _ := strings.Cut(coding, ";")
			if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
				continue
			}
			weight, _ := strings.CutPrefix(strings.ReplaceAll(parameters, " ", ""), "q=")
			q, err := strconv.ParseFloat(weight, 64)
			return err != nil || q > 0
		}
	}
	return false
}
