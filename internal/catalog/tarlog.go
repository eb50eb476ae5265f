package catalog

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"config-server/internal/podspec"
)

// maxLine bounds what is read of a line at once, in bytes; base64 commonly writes lines of 77.
const maxLine = 64 << 10

var (
	// errUnfinished is the end of a log without the line that says that the export is whole.
	errUnfinished = errors.New("the log ends before the export does")
	// errTooLarge is the error of an export over its limit.
	errTooLarge = errors.New("the export is too large")
)

// tarReader gives the tar that an export's log holds, as it comes. It ends with io.EOF only if the log
// says that the export is whole, and as many bytes came as it says: kubelet turns logs over while they are
// written, and a piece that is lost that way has to be seen.
type tarReader struct {
	lines   *lines
	decoded io.Reader
	limit   int64 // bytes
	size    int64 // bytes that came
}

func newTarReader(log io.Reader, limit int64) *tarReader {
	from := &lines{log: bufio.NewReaderSize(log, maxLine)}
	return &tarReader{lines: from, decoded: base64.NewDecoder(base64.StdEncoding, from), limit: limit}
}

// Read implements io.Reader.
func (t *tarReader) Read(p []byte) (int, error) {
	n, err := t.decoded.Read(p)
	t.size += int64(n)
	switch {
	case t.size > t.limit:
		return 0, fmt.Errorf("%w: it has more than %d bytes", errTooLarge, t.limit)
	case errors.Is(err, io.EOF) && t.size != t.lines.size:
		return n, fmt.Errorf("%d of %d bytes came: a part of the log was lost", t.size, t.lines.size)
	}
	return n, err
}

// lines gives what comes before the line that says that the export is whole.
type lines struct {
	log  *bufio.Reader
	rest []byte // of the line that is being given
	err  error
	size int64 // of the tar, as that line has it; valid once err is io.EOF
}

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		line, err := l.log.ReadSlice('\n')
		size, done := strings.CutPrefix(string(line), podspec.ExportDone)
		switch {
		case done:
			l.err = io.EOF
			if l.size, err = strconv.ParseInt(strings.TrimSpace(size), 10, 64); err != nil {
				l.err = errUnfinished // it is cut off itself
			}
			continue
		case errors.Is(err, bufio.ErrBufferFull): // a longer line, which is given in pieces
		case errors.Is(err, io.EOF):
			l.err = errUnfinished
		case err != nil:
			l.err = err
		}
		l.rest = line
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}
