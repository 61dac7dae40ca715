package headers

import (
	"fmt"
	"strings"
)

// token is a kind of token in apt.conf.
type token int

const (
	tokenEnd   token = iota // end of the file
	tokenWord               // a name, or a value without its quotes
	tokenOpen               // {
	tokenClose              // }
	tokenStop               // ;
)

// lexer splits the text of an apt.conf file into tokens.
type lexer struct {
	text string
	line int
}

func (l *lexer) fail(why string) error { return fmt.Errorf("line %d: %s", l.line, why) }

func (l *lexer) skip(n int) {
	l.line += strings.Count(l.text[:n], "\n")
	l.text = l.text[n:]
}

func (l *lexer) next() (string, token, error) {
	if err := l.skipSpace(); err != nil {
		return "", tokenEnd, err
	}
	if l.text == "" {
		return "", tokenEnd, nil
	}
	switch c := l.text[0]; c {
	case '{', '}', ';':
		l.skip(1)
		return "", map[byte]token{'{': tokenOpen, '}': tokenClose, ';': tokenStop}[c], nil
	case '"':
		end := strings.IndexByte(l.text[1:], '"')
		if end < 0 {
			return "", tokenEnd, l.fail("a quote is not closed")
		}
		word := l.text[1 : end+1]
		l.skip(end + 2)
		return word, tokenWord, nil
	}
	end := 1 // the first byte belongs to the word, even if it is the # of a directive
	for end < len(l.text) && !strings.ContainsRune(" \t\r\n{};\"", rune(l.text[end])) && !isComment(l.text[end:]) {
		end++
	}
	word := l.text[:end]
	l.skip(end)
	return word, tokenWord, nil
}

// skipSpace skips white space and comments.
func (l *lexer) skipSpace() error {
	for {
		l.skip(len(l.text) - len(strings.TrimLeft(l.text, " \t\r\n\v\f")))
		switch {
		case strings.HasPrefix(l.text, "/*"):
			end := strings.Index(l.text, "*/")
			if end < 0 {
				return l.fail("a comment is not closed")
			}
			l.skip(end + 2)
		case isComment(l.text):
			end := strings.IndexByte(l.text, '\n')
			if end < 0 {
				end = len(l.text)
			}
			l.skip(end)
		default:
			return nil
		}
	}
}

// isComment says whether a comment begins here. Outside of quotes // begins one even in the middle of a word,
// as in apt: a URL has to be quoted.
func isComment(s string) bool {
	if s != "" && s[0] == '#' {
		return !isDirective(s, "#clear") && !isDirective(s, "#include")
	}
	return strings.HasPrefix(s, "//") || strings.HasPrefix(s, "/*")
}

func isDirective(s, name string) bool {
	return len(s) >= len(name) && strings.EqualFold(s[:len(name)], name)
}
