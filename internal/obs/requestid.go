package obs

import (
	"context"
	"crypto/rand"
	"encoding/hex"
)

// MaxRequestID is the greatest length of an id that is taken over from a caller.
const MaxRequestID = 128

type requestIDKey struct{}

// WithRequestID returns a context whose log lines carry the id.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID is the id of the request that the context belongs to; "" outside of requests.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// NewRequestID makes an id of 32 hexadecimal digits that nobody can foresee.
func NewRequestID() string {
	var raw [16]byte
	// crypto/rand.Read never fails; where the system has no randomness it ends the process.
	_, _ = rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}

// SaneRequestID reports whether a caller's id may be taken over: 1 to 128 letters, digits and the
// characters . _ : - so that it can stand in headers and logs as it is.
func SaneRequestID(id string) bool {
	if id == "" || len(id) > MaxRequestID {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}
