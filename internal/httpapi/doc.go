// Package httpapi is the HTTP edge: routes, decoding and checking of requests, and one table that
// turns an error's kind into a status and one of two bodies. It knows the use cases through a
// few small interfaces and nothing of Kubernetes, SQL, SSH or files.
//
// The pod family (/create-pod, /delete-pod) answers failures as
// {"step","error","detail","progress", ...extras}; everything else as {"error": text}. An error
// that has a code is told in the first shape wherever it comes from (NAS and Kerberos failures of
// PUT /accounts/users). Errors that nobody foresaw are told without their text but with the
// request's id, under which the log has it.
package httpapi
