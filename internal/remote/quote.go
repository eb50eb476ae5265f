package remote

import "strings"

// Quote joins arguments to one line that a POSIX shell splits into exactly these arguments. A word
// of letters, digits and @%+:,./_- stays as it is; any other, the empty one included, stands
// between single quotes. NUL cannot stand in an argument; Run refuses it.
func Quote(args ...string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = quoteWord(arg)
	}
	return strings.Join(words, " ")
}

func quoteWord(arg string) string {
	if arg != "" && strings.IndexFunc(arg, needsQuotes) < 0 {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

func needsQuotes(r rune) bool {
	plain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("@%+:,./_-", r)
	return !plain
}
