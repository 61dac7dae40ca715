package rpm

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Content returns the text that the element begins with, until the next call of Next; nil if it
// begins with another.
func (x *xmlReader) Content() ([]byte, error) {
	token, err := x.Next()
	if err != nil || token != xmlText {
		return nil, err
	}
	return x.Text, nil
}

// text is Content as a text.
func (x *xmlReader) text() (string, error) {
	content, err := x.Content()
	return string(content), err
}

// Attr returns the value of an attribute; nil if it does not exist.
func (x *xmlReader) Attr(name string) []byte {
	for _, a := range x.attrs {
		if string(a.name) == name {
			return a.value
		}
	}
	return nil
}

func local(name []byte) []byte {
	if i := bytes.IndexByte(name, ':'); i > 0 && i < len(name)-1 {
		return name[i+1:]
	}
	return name
}

var entities = []struct {
	name string
	char byte
}{{"amp;", '&'}, {"lt;", '<'}, {"gt;", '>'}, {"quot;", '"'}, {"apos;", '\''}}

// unescape replaces references in place: the replacement is never longer.
func unescape(b []byte) ([]byte, error) {
	at := bytes.IndexByte(b, '&')
	if at < 0 {
		return b, nil
	}
	out := b[:at]
	rest := b[at:]
next:
	for len(rest) > 0 {
		if rest[0] != '&' {
			stop := bytes.IndexByte(rest, '&')
			if stop < 0 {
				stop = len(rest)
			}
			out = append(out, rest[:stop]...)
			rest = rest[stop:]
			continue
		}
		for _, e := range entities {
			if bytes.HasPrefix(rest[1:], []byte(e.name)) {
				out = append(out, e.char)
				rest = rest[1+len(e.name):]
				continue next
			}
		}
		end := bytes.IndexByte(rest[:min(len(rest), 12)], ';')
		if end < 3 || rest[1] != '#' {
			return nil, fmt.Errorf("%w: unknown reference %.12q", errXML, rest)
		}
		digits := string(rest[2:end])
		base := 10
		if digits[0] == 'x' {
			digits = digits[1:]
			base = 16
		}
		n, err := strconv.ParseUint(digits, base, 32)
		if err != nil || n == 0 || n > utf8.MaxRune {
			return nil, fmt.Errorf("%w: unknown reference %.12q", errXML, rest[:end+1])
		}
		out = utf8.AppendRune(out, rune(n))
		rest = rest[end+1:]
	}
	return out, nil
}
