package repoconf

import (
	"strings"

	"github.com/driver-container/driver-container/distros"
)

// section is one [section] of a configuration file.
type section struct {
	name   string
	line   int
	values map[string]string // keys in lower case; the lines of a value separated by newlines
	// comment has the values of lines that are commented out with a lone #: settings that a
	// distribution offers and does not use.
	comment map[string]string
}

const maxSections = 10000 // redhat.repo of a large subscription has 1000

// parseINI reads the dialect of yum, dnf and zypper: "key=value" or "key: value", values that
// continue in indented lines, comments after # or ; at the beginning of a line. Mistakes are
// distros.ErrSources and name file and line.
func parseINI(name string, data []byte) ([]section, error) {
	var out []section
	n := 0
	key := ""
	for line := range strings.Lines(strings.TrimPrefix(string(data), "\ufeff")) {
		n++
		line = strings.TrimRight(line, "\r\n\t ")
		text := strings.TrimSpace(line)
		indented := line != text
		switch {
		case text == "":
			key = ""
		case text[0] == '#' || text[0] == ';':
			if len(out) > 0 {
				if k, v, ok := assignment(strings.TrimLeft(text, "#; ")); ok && validVar(k) {
					out[len(out)-1].comment[k] = v
				}
			}
		case indented && key != "":
			out[len(out)-1].values[key] += "\n" + text
		case text[0] == '[':
			end := strings.IndexByte(text, ']')
			if end < 2 {
				return nil, distros.BadSources("%s:%d: want [section], have %.80q", name, n, text)
			}
			if len(out) == maxSections {
				return nil, distros.BadSources("%s:%d: more than %d sections", name, n, maxSections)
			}
			out = append(out, section{text[1:end], n, map[string]string{}, map[string]string{}})
			key = ""
		default:
			k, v, ok := assignment(text)
			if !ok || len(out) == 0 {
				return nil, distros.BadSources(
					"%s:%d: want [section] and key=value, have %.80q",
					name,
					n,
					text,
				)
			}
			out[len(out)-1].values[k] = v
			key = k
		}
	}
	return out, nil
}

func assignment(text string) (key, value string, ok bool) {
	i := strings.IndexAny(text, "=:")
	if i <= 0 {
		return "", "", false
	}
	return strings.ToLower(strings.TrimSpace(text[:i])), strings.TrimSpace(text[i+1:]), true
}

func truth(value string) (val, ok bool) {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "1", "yes", "true", "on", "always", "enabled":
		return true, true
	case "0", "no", "false", "off", "never", "disabled":
		return false, true
	}
	return false, false
}
